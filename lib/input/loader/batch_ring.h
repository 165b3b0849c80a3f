// BatchRing: the memory of a loader. It holds several batches of equal shapes, allocated once and
// filled in place, row by row, by any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/input/loader/loader.h"

namespace bv {

// `slot` is the number of a batch of the ring. Different rows may be written at the same time.
class BatchRing {
 public:
  // Allocates `batches` batches with the keys, dtypes and shapes of `prototype` (one example) and a
  // leading dimension batch_size. If `evaluation` is set, a batch also has `_mask` (bool) and `_id`
  // (int64). Contents are undefined until written. `pinned` requests pinned memory (needs CUDA).
  // Throws Error(Exit::memory), and Error(Exit::usage) if a feature has no value or, in an
  // evaluation, is called `_mask` or `_id`.
  BatchRing(const Example& prototype, int64_t batch_size, int batches, bool evaluation,
            bool pinned = false);

  const Batch& batch(int64_t slot) const { return batches_[slot]; }

  // Copy one example into row `row`, or `count` stacked examples into the rows from `row` on. Throw
  // Error(Exit::usage) if a key is missing or unknown, or a dtype or shape differs from the
  // prototype; the rows are then undefined.
  void write(int64_t slot, int64_t row, const Example& example);
  void write_stacked(int64_t slot, int64_t row, int64_t count, const Example& stacked);
  // In an evaluation, sets `_mask` to true and `_id` to `id`. Otherwise does nothing.
  void mark(int64_t slot, int64_t row, int64_t id);
  // Fills `count` rows of all features with zeros, `_mask` and `_id` included.
  void clear(int64_t slot, int64_t row, int64_t count);

 private:
  struct Feature {
    std::string name;
    at::ScalarType dtype;
    std::vector<int64_t> shape;  // of one example
    size_t row_bytes;
    std::vector<char*> base;  // the memory of each batch's tensor
  };
  void add(const std::string& name, at::ScalarType dtype, at::IntArrayRef shape, int64_t batch_size,
           std::vector<Feature>& to);
  void copy(int64_t slot, int64_t row, int64_t count, bool stacked, const Example& example);
  std::string remedy(const Feature& feature, const at::Tensor& value) const;

  const bool pinned_;
  std::vector<Batch> batches_;
  std::vector<Feature> features_;     // sorted by name, like an Example
  std::vector<Feature> mask_and_id_;  // `_mask` and `_id`, in an evaluation
};

}  // namespace bv
