// Split expressions in TFDS's grammar (tensorflow_datasets/core/splits.py): "train",
// "train[:99%]", "train[51200:]", "train[-100:]", "train[:2shard]", "train[:80%]+test", "all".
// Percentages are rounded to the nearest example (halves to even).
//
// A part of what the slice selects may follow: "train[even 2/5]" is the second of five contiguous
// parts, as tfds.even_splits makes them, "train[fold 2/5]" the second of five folds for
// cross-validation, and "train[not fold 2/5]" the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/config.h"

namespace bv {

// One term of a split expression.
struct SplitTerm {
  enum class Unit { examples, percent, shards };
  struct Bound {
    int64_t value = 0;   // of examples or shards
    double percent = 0;  // of percent
    Unit unit = Unit::examples;
  };
  enum class Part { whole, even, fold, not_fold };

  std::string text;                 // "train[:99%][fold 2/5]"
  std::string base;                 // "train"
  std::optional<Bound> begin, end;  // nullopt where the bound is left out
  Part part = Part::whole;
  int64_t number = 1, parts = 1;  // number 1 .. parts, unless `part` is whole

  // Returns whether a bound is a number of shards.
  bool in_shards() const;
  // Returns [begin, end) for a split of n examples; for Part::even, of that part. A split with
  // bounds in shards needs the number of examples in each shard. Throws Error(Exit::usage) at
  // `place` if a bound is outside the split or the range is empty.
  std::pair<int64_t, int64_t> range(int64_t n, const Place& place,
                                    std::span<const int64_t> shards = {}) const;
};

// Parses a split expression. Throws Error(Exit::usage) at `place`:
// "x.yaml:5:12: error: bad split 'train[:': ...".
std::vector<SplitTerm> parse_split(const std::string& expression, const Place& place);

// Returns the positions in 0 .. n - 1 that fold `number` of `parts` holds, or all others with
// Part::not_fold, in ascending order. The folds do not depend on the run. With labels, (n) of them,
// each fold has its equal share of every class, to within one example; without, of all examples.
std::vector<int64_t> fold_positions(const SplitTerm& term, int64_t n,
                                    std::span<const int64_t> labels);

}  // namespace bv
