// All parameters of a model in one flat float32 buffer, the gradients in another: one optimizer
// pass, one norm, one memset, fixed addresses.
//
// Order: trainable parameters by (optimizer group, reverse registration order, in which backward
// finishes them), then the frozen ones. Each starts at a multiple of 256 bytes; the gaps are zero
// and stay zero. Gradients and every other buffer of the optimizer cover the trainable prefix only.
//
// Parameters keep their strides: a kernel that lies permuted in memory is a permuted view of its
// range.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/tensors.h"
#include "lib/model/model.h"

namespace bv {

inline constexpr int kFrozen = -1;

class FlatParams {
 public:
  static constexpr int64_t kAlign = 64;  // elements: 256 bytes of float32

  struct Entry {
    std::string name;      // "head/kernel"
    at::Tensor parameter;  // the model's own; its memory is a view of data()
    std::vector<int64_t> shape, strides;
    int64_t offset = 0;  // in elements, a multiple of kAlign
    int64_t numel = 0;
    int group = kFrozen;
  };

  // groups[i] belongs to the i-th of named_parameters(model): 0, 1, ... or kFrozen. Moves every
  // parameter (values kept) and presets its gradient; frozen ones no longer require one.
  FlatParams(Model& model, std::span<const int> groups);

  const std::vector<Entry>& entries() const { return entries_; }  // in buffer order
  int64_t size() const { return size_; }            // elements of data(), gaps included
  int64_t trainable() const { return trainable_; }  // of which the first so many are trainable
  // [begin, end) of a group's parameters, gaps included.
  std::pair<int64_t, int64_t> group_range(int group) const;

  const at::Tensor& data() const { return data_; }    // (size()) float32
  const at::Tensor& grads() const { return grads_; }  // (trainable()) float32
  void zero_grad();

  // A zeroed buffer with the layout of the trainable prefix: (trainable()).
  at::Tensor new_buffer(at::ScalarType dtype) const;
  // The parameters' places in `flat` (data(), or a buffer of the trainable prefix), by
  // prefix + name, with the parameters' shapes.
  std::vector<std::pair<std::string, at::Tensor>> views(const at::Tensor& flat,
                                                        const std::string& prefix) const;

 private:
  at::Tensor allocate(int64_t elements, at::ScalarType dtype) const;
  c10::Device device_;
  std::vector<Entry> entries_;
  int64_t size_ = 0, trainable_ = 0;
  at::Tensor data_, grads_;
};

// Fills `views` from the tensors of the same names. Nothing is written unless each is there with
// the same shape and type, and `from` has no others that start with one of `prefixes`; else throws
// Error(Exit::usage) at `origin`, naming every missing, unexpected and differing tensor.
void copy_in(const std::vector<std::pair<std::string, at::Tensor>>& views, const NamedTensors& from,
             const std::vector<std::string>& prefixes, const std::string& origin);

}  // namespace bv
