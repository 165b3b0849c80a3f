#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "lib/ckpt/tensors.h"
#include "lib/config/config.h"
#include "lib/config/key_table.h"

namespace bv {

inline constexpr KeyText kStoredFileKey = {
    "file",
    "string",
    "required",
    "Local npz file with the arrays, written by NumPy, the evaluator `save` or any other program.",
    "embeddings.npz",
    "-"};

// The arrays of an npz file, written by another program or by the evaluator `save`. The first
// function that needs an array opens the file. All of them throw Error(Exit::usage) naming the
// file.
class StoredArrays {
 public:
  explicit StoredArrays(const Config& config);  // reads kStoredFileKey

  bool has(const std::string& name);
  // Returns the array as a matrix (n, d) float64. With `flatten` each row of an array with more
  // dimensions is flattened. Throws if the array is missing, is not a matrix, is empty, or holds a
  // value that is not finite.
  at::Tensor matrix(const std::string& name, bool flatten = false);
  // Returns the array as (n) int64, or nullopt if the file has none of this name.
  std::optional<at::Tensor> integers(const std::string& name);
  // Returns the only value of the array, or nullopt if the file has none of this name.
  std::optional<double> number(const std::string& name);
  // Returns a hash of the names, types, shapes and values of all arrays; 0 before the file is open.
  // Equal for a copy of the file.
  uint64_t content() const { return content_; }
  // Throws Error(Exit::usage) with the name of the file.
  [[noreturn]] void refuse(const std::string& why) const;
  const std::string& file() const { return file_; }

 private:
  const NamedTensors& arrays();
  const at::Tensor& need(const std::string& name);
  std::string file_;
  std::optional<NamedTensors> arrays_;
  uint64_t content_ = 0;
};

}  // namespace bv
