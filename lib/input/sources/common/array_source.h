// ArraySource: base class of sources whose splits are arrays in memory (idx, cifar, npz, digits).
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string_view>

#include "lib/input/source.h"

namespace bv {

// Loads a split at its first use and keeps it in memory.
class ArraySource : public Source {
 public:
  int64_t size(size_t split) const override;
  Example read(size_t split, int64_t index) const override;
  bool is_array() const override { return true; }
  Example read_batch(size_t split, std::span<const int64_t> indices) const override;
  // Returns the array "label" if it is (n,) int64.
  at::Tensor labels(size_t split) const override;
  // Returns whether the labels are known and come one class after the other (label_order.h).
  bool sorted_by_class(size_t split) const override;

 protected:
  // Returns all arrays of a split, with equal leading dimensions. Called once per split.
  virtual Example load(size_t split) const = 0;

 private:
  const Example& arrays(size_t split) const;

  mutable std::mutex mutex_;
  mutable std::map<size_t, Example> loaded_;  // guarded by mutex_; entries never change
};

// Returns whether the array `name` is class numbers in a column: integers `label` of shape (n, 1).
// Keras and others store classes so. They are read as (n), one class for each example.
bool is_class_column(std::string_view name, at::IntArrayRef shape, at::ScalarType type);

}  // namespace bv
