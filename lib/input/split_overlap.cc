#include "lib/input/split_overlap.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "lib/input/split.h"

namespace bv {
namespace {

// What one term of a split expression selects of one split.
struct SelectedRange {
  SplitTerm term;
  size_t split = 0;            // index into Source::splits(); 0 if both are the same
  int64_t begin = 0, end = 0;  // of the slice, in which the folds are

  bool is_fold() const {
    return term.part == SplitTerm::Part::fold || term.part == SplitTerm::Part::not_fold;
  }
  // Returns the size of fold `term.number`. The examples are dealt to the folds in turn
  // (fold_positions()).
  int64_t fold_size() const { return (end - begin - term.number + term.parts) / term.parts; }
  int64_t size() const {
    if (term.part == SplitTerm::Part::fold) return fold_size();
    return end - begin - (term.part == SplitTerm::Part::not_fold ? fold_size() : 0);
  }
};

// Returns the ranges without their bounds, which need the sizes of the splits.
std::vector<SelectedRange> selected_splits(const std::vector<std::string>& known,
                                           const std::string& expression, const Place& place) {
  // Sources that have no splits, such as npz, call all their examples by both names.
  const bool undivided = known == std::vector<std::string>{"all", "train"};
  std::vector<SelectedRange> ranges;
  for (const SplitTerm& term : parse_split(expression, place)) {
    const bool is_split = std::find(known.begin(), known.end(), term.base) != known.end();
    for (size_t split = 0; split < known.size(); ++split) {
      if (is_split ? known[split] == term.base : term.text == "all")
        ranges.push_back({.term = term, .split = undivided ? 0 : split});
    }
  }
  return ranges;
}

void find_bounds(const Source& source, const Place& place, std::vector<SelectedRange>& ranges) {
  for (SelectedRange& range : ranges) {
    std::tie(range.begin, range.end) =
        range.term.range(source.size(range.split), place, source.shard_lengths(range.split));
  }
}

// Removes the ranges of splits that `others` do not select. Returns whether there were any.
bool leave_out_other_splits(std::vector<SelectedRange>& ranges,
                            const std::vector<SelectedRange>& others) {
  const auto is_other = [&](const SelectedRange& one) {
    return std::none_of(others.begin(), others.end(),
                        [&](const SelectedRange& other) { return one.split == other.split; });
  };
  return std::erase_if(ranges, is_other) > 0;
}

// Returns how many examples two folds of the same slice, among equally many, have in common.
int64_t shared_by_folds(const SelectedRange& a, const SelectedRange& b) {
  const bool same = a.term.number == b.term.number;
  const bool a_held = a.term.part == SplitTerm::Part::fold;
  const bool b_held = b.term.part == SplitTerm::Part::fold;
  if (a_held && b_held) return same ? a.size() : 0;
  if (a_held) return same ? 0 : a.size();
  if (b_held) return same ? 0 : b.size();
  return same ? a.size() : a.end - a.begin - a.fold_size() - b.fold_size();
}

// Slices of a split that is sorted by class are taken from a permutation of it (Dataset), but a
// whole split is not. So positions in a fold of the whole split and in a slice do not compare.
int64_t shared_examples(const SelectedRange& a, const SelectedRange& b) {
  if (a.split != b.split) return 0;
  const bool contains_b = !a.is_fold() && a.begin <= b.begin && b.end <= a.end;
  const bool contains_a = !b.is_fold() && b.begin <= a.begin && a.end <= b.end;
  if (contains_b) return b.size();
  if (contains_a) return a.size();
  if (!a.is_fold() && !b.is_fold())
    return std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
  const bool same_slice = a.begin == b.begin && a.end == b.end;
  const bool same_folds = a.is_fold() && b.is_fold() && a.term.parts == b.term.parts;
  return same_slice && same_folds ? shared_by_folds(a, b) : 0;
}

// Joins slices that overlap or touch, and leaves out folds that are there twice, so that examples
// that several data sets of a mixture train on count once.
std::vector<SelectedRange> without_repeats(std::vector<SelectedRange> ranges) {
  const auto key = [](const SelectedRange& one) {
    return std::tuple(one.is_fold(), one.split, one.begin, one.end, one.term.part, one.term.number,
                      one.term.parts);
  };
  std::sort(ranges.begin(), ranges.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  std::vector<SelectedRange> joined;
  for (SelectedRange& range : ranges) {
    SelectedRange* const last = joined.empty() ? nullptr : &joined.back();
    if (last && !range.is_fold() && range.split == last->split && range.begin <= last->end)
      last->end = std::max(last->end, range.end);
    else if (!last || key(*last) != key(range))
      joined.push_back(std::move(range));
  }
  return joined;
}

}  // namespace

SplitOverlap split_overlap(const Source& source, const std::string& evaluated,
                           const std::vector<std::string>& trained, const Place& place) {
  const std::vector<std::string> known = source.splits();
  std::vector<SelectedRange> own = selected_splits(known, evaluated, place), training;
  for (const std::string& expression : trained) {
    for (SelectedRange& range : selected_splits(known, expression, place))
      training.push_back(std::move(range));
  }
  SplitOverlap overlap;
  const bool whole = !leave_out_other_splits(own, training);
  leave_out_other_splits(training, own);
  find_bounds(source, place, own);
  find_bounds(source, place, training);
  training = without_repeats(std::move(training));
  for (const SelectedRange& range : own) {
    int64_t shared = 0;
    for (const SelectedRange& other : training) shared += shared_examples(range, other);
    overlap.shared += std::min(shared, range.size());
    if (whole) overlap.all += range.size();
  }
  return overlap;
}

}  // namespace bv
