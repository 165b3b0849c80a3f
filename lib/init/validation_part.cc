#include "lib/init/validation_part.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "lib/init/found_source.h"
#include "lib/input/dataset.h"

namespace bv {
namespace {

// Returns the percentage of examples to train on. The fewer examples there are, the larger the
// validation part must be.
int training_percent(int64_t examples) { return examples < 1000 ? 80 : examples < 20000 ? 90 : 95; }

// Returns whether the slice `part` of a split may be a random choice of its examples. If the split
// is not shuffled, the slice may have examples of few classes, or far too many of one.
bool may_be_random(const Dataset& part, const std::vector<FoundClass>& classes) {
  std::map<int64_t, int64_t> counts = part.label_counts();
  double all = 0, in_part = 0;
  for (size_t label = 0; label < classes.size(); ++label) {
    all += static_cast<double>(classes[label].examples);
    in_part += static_cast<double>(counts[static_cast<int64_t>(label)]);
  }
  for (size_t label = 0; label < classes.size(); ++label) {
    const auto size = static_cast<double>(classes[label].examples);
    const auto count = static_cast<double>(counts[static_cast<int64_t>(label)]);
    const double share = in_part / all, expected = share * size;
    const double deviation = std::sqrt(expected * (1 - share) * (1 - size / all));
    const bool misses = count == 0 && expected >= 1, takes_all = count == size && size > 1;
    if (misses || takes_all || std::abs(count - expected) > 4 * deviation + 2) return false;
  }
  return true;
}

}  // namespace

void slice(const std::string& split, DataFindings& found) {
  const int percent = training_percent(found.examples);
  found.train = fmt::format("{}[:{}%]", split, percent);
  found.validation = fmt::format("{}[{}%:]", split, percent);
  found.sliced = true;
}

void use_folds(const std::string& split, DataFindings& found) {
  const int folds = 100 / (100 - training_percent(found.examples));
  found.train = fmt::format("{}[not fold 1/{}]", split, folds);
  found.validation = fmt::format("{}[fold 1/{}]", split, folds);
}

void divide_by_folds(const std::shared_ptr<const Source>& source, const std::string& split,
                     DataFindings& found) {
  if (!found.sliced || found.classes.empty() || source->sorted_by_class(index_of(*source, split)))
    return;
  if (!may_be_random(Dataset(source, found.validation, Place{found.folder}), found.classes))
    use_folds(split, found);
}

// A class that has no example in the part counts only if several were to be expected: folds are not
// stratified by such labels, and may lack a rare class too.
bool may_be_random(const LabelVectors& part, const LabelVectors& all) {
  constexpr double kExpected = 3, kDeviations = 4;
  const auto n = static_cast<double>(part.examples);
  const double share = n / static_cast<double>(all.examples);
  for (size_t i = 0; i < all.columns.size(); ++i) {
    if (all.orders[i].is_sorted()) return false;
    const double distance = std::abs(part.columns[i].mean() - all.columns[i].mean());
    if (distance > kDeviations * all.columns[i].std() * std::sqrt((1 - share) / n)) return false;
    const double expected = share * static_cast<double>(all.counts[i]);
    if (all.of_classes && part.counts[i] == 0 && expected >= kExpected) return false;
  }
  return true;
}

}  // namespace bv
