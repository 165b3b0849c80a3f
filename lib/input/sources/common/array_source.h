// Sources whose examples lie in memory as arrays: IDX, CIFAR, npz.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lib/input/source.h"

namespace bv {

class ArraySource : public Source {
 public:
  int64_t size(size_t split) const override;
  Example read(size_t split, int64_t index) const override;
  bool is_array() const override { return true; }
  Example read_batch(size_t split, std::span<const int64_t> indices) const override;
  at::Tensor labels(size_t split) const override;  // the array "label", if there is one

 protected:
  // All arrays of a split, with an equal leading dimension. Called once a split, at its first use.
  virtual Example load(size_t split) const = 0;

 private:
  const Example& arrays(size_t split) const;

  mutable std::mutex mutex_;
  mutable std::map<size_t, Example> loaded_;  // guarded by mutex_; entries never change
};

}  // namespace bv
