// Matrices that another program or the evaluator `save` stored in an npz file.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "lib/ckpt/tensors.h"
#include "lib/config/config.h"

namespace bv {

class StoredArrays {
 public:
  explicit StoredArrays(const Config& config);  // reads `file`

  // All of these open the file at their first use and throw Error(Exit::usage) naming it.
  bool has(const std::string& name);
  // (n, d) float64, finite. What is in `name` with more dimensions is flattened per row if
  // `flatten`.
  at::Tensor matrix(const std::string& name, bool flatten = false);
  // (n) int64, or nullopt where the file has no such array.
  std::optional<at::Tensor> integers(const std::string& name);
  std::optional<double> number(const std::string& name);
  [[noreturn]] void refuse(const std::string& why) const;
  const std::string& file() const { return file_; }

 private:
  const NamedTensors& arrays();
  const at::Tensor& need(const std::string& name);
  std::string file_;
  std::optional<NamedTensors> arrays_;
};

}  // namespace bv
