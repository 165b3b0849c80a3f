// The memory of a loader: several batches of one form, allocated once and filled in place, row by
// row, by any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/input/loader/loader.h"

namespace bv {

class BatchRing {
 public:
  // Every batch gets the features of `form` (one example) with a leading dimension batch_size. With
  // `evaluation` also `_mask` (bool) and `_id` (int64), unless `form` has them. Contents are
  // undefined until written. `pinned` is for CUDA. Throws Error(Exit::memory).
  BatchRing(const Example& form, int64_t batch_size, int batches, bool evaluation,
            bool pinned = false);

  const Batch& batch(int64_t slot) const { return batches_[slot]; }

  // Copy one example, or `count` stacked ones, to row `row` on. Different rows may be written at
  // the same time. Error(Exit::usage) where a feature is missing or unknown, or has another type or
  // shape than in the form: the rows are then undefined.
  void write(int64_t slot, int64_t row, const Example& example);
  void write_stacked(int64_t slot, int64_t row, int64_t count, const Example& stacked);
  // Sets `_mask` and `_id` of a row, where they are the ring's own.
  void mark(int64_t slot, int64_t row, int64_t id);
  // Zeros in all features, `_mask` and `_id` included.
  void clear(int64_t slot, int64_t row, int64_t count);

 private:
  struct Feature {
    std::string name;
    at::ScalarType dtype;
    std::vector<int64_t> shape;  // of one example
    size_t row_bytes;
    std::vector<char*> base;  // of each batch's tensor
  };
  void add(const std::string& name, at::ScalarType dtype, at::IntArrayRef shape, int64_t batch_size,
           std::vector<Feature>& to);
  void copy(int64_t slot, int64_t row, int64_t count, bool stacked, const Example& example);
  std::string remedy(const Feature& feature, const at::Tensor& value) const;

  const bool pinned_;
  std::vector<Batch> batches_;
  std::vector<Feature> features_;     // in the order of an Example
  std::vector<Feature> mask_and_id_;  // empty, or one or both, as the ring's own
};

}  // namespace bv
