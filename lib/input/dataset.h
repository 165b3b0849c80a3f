// Dataset: the examples of a source that a split expression selects, "train[:99%]" or
// "train[8000:]+test" (split.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/input/source.h"

namespace bv {

// Thread-safe.
//
// A slice of a split that is sorted by class is taken along a fixed pseudo-random permutation of
// the split, so that it usually holds examples of all classes. The permutation never changes: a
// slice means the same examples in every run.
class Dataset {
 public:
  // Opens the source. `split_place` is the place of the split expression in the config. Throws
  // Error(Exit::usage) at it if the expression is malformed, names an unknown split, or is empty or
  // out of bounds.
  Dataset(std::shared_ptr<const Source> source, const std::string& split, const Place& split_place);

  int64_t size() const { return size_; }
  // The members below are those of Source for example `index` of the data set, 0 <= index < size().
  Example read(int64_t index) const;
  bool is_array() const { return source_->is_array(); }
  Example read_batch(std::span<const int64_t> indices) const;
  std::string describe(int64_t index) const;
  const Source& source() const { return *source_; }

  // Returns a one-line warning if a class of the splits has no example in the slices. Empty if all
  // classes are present, or if the source does not know its labels.
  std::string missing_classes() const;
  // Returns {index, label} of the first `each` examples (or all, if there are fewer) with the
  // smallest label, then of those with the largest. Empty if the source does not know its labels.
  std::vector<std::pair<int64_t, int64_t>> label_bounds(size_t each = 1) const;

 private:
  // One term of the split expression.
  struct Piece {
    size_t split;        // index into Source::splits()
    int64_t begin, end;  // positions in the source's order, or along the permutation if `permuted`
    int64_t split_size;
    bool permuted;

    // Returns the source's index of the example at `position`.
    int64_t source_index(int64_t position) const;
  };
  // Returns the split and the index in it of example `index`.
  std::pair<size_t, int64_t> locate(int64_t index) const;

  std::shared_ptr<const Source> source_;
  std::string split_;  // the expression
  std::vector<Piece> pieces_;
  int64_t size_ = 0;
};

}  // namespace bv
