#include "lib/tasks/sliced_labels.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "lib/input/ordered_work.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Examples of each data set that show whether its labels need no images.
constexpr int64_t kCompared = 8;
// Fewer rows may be in order by chance.
constexpr int64_t kFewestSorted = 20;
// At least so many rows differ from the first one, and from the last one. So a few rare values at
// an end do not count as an order.
constexpr int64_t kFewestOthers = 3;
// What reading the labels may cost at each start, in bytes.
constexpr double kMostLabelBytes = 0x1p26;

// The remedy for slices of sorted rows.
constexpr const char* kTakeFolds =
    "take a random part of the rows instead, such as train[not fold 1/5]";

// The same as labels_are_quick() for the examples from `begin` to `end`.
bool labels_of_part_are_quick(const LabelledExamples& examples, const char* key, int64_t begin,
                              int64_t end) {
  const int64_t step = std::max<int64_t>((end - begin) / kCompared, 1);
  for (int64_t i = begin; i < end; i += step) {
    Example computed, quick;
    try {
      computed = examples.computed(i);
    } catch (const Error& error) {
      if (error.code() != Exit::data || examples.error_budget == 0) throw;
      continue;
    }
    try {
      quick = examples.quick(i);
    } catch (const Error&) {
      return false;  // the ops for the labels need an image
    }
    const auto one = quick.find(key), other = computed.find(key);
    if (one == quick.end() || other == computed.end()) return false;
    if (!one->second.to(at::kFloat).equal(other->second.to(at::kFloat))) return false;
  }
  return true;
}

// Whether the labels of all examples can be read quickly.
bool labels_are_cheap(const LabelledExamples& examples) {
  double bytes = 0;
  for (size_t p = 0; p < examples.parts.size(); ++p) {
    const int64_t end = p + 1 < examples.parts.size() ? examples.parts[p + 1] : examples.size;
    const auto count = static_cast<double>(end - examples.parts[p]);
    for (const auto& [name, value] : examples.quick(examples.parts[p]))
      bytes += count * static_cast<double>(value.nbytes());
  }
  return bytes <= kMostLabelBytes;
}

// Returns which classes an example has, (classes) bool; undefined if it has no such labels.
at::Tensor classes_of_example(const LabelledExamples& examples, int64_t index, int64_t classes) {
  try {
    const Example example = examples.quick(index);
    const auto labels = example.find("labels");
    if (labels == example.end() || labels->second.numel() != classes) return {};
    return labels->second.reshape({classes}).gt(0);
  } catch (const Error&) {
    return {};  // the loader reports examples that cannot be read
  }
}

}  // namespace

bool labels_are_quick(const LabelledExamples& examples, const char* key) {
  for (size_t p = 0; p < examples.parts.size(); ++p) {
    const int64_t end = p + 1 < examples.parts.size() ? examples.parts[p + 1] : examples.size;
    if (!labels_of_part_are_quick(examples, key, examples.parts[p], end)) return false;
  }
  return true;
}

void TargetOrder::add(double value) {
  if (count_ == 0) first_ = last_ = value;
  rises_ = rises_ && value >= last_;
  falls_ = falls_ && value <= last_;
  last_run_ = value == last_ ? last_run_ + 1 : 1;
  if (first_run_ == count_ && value == first_) ++first_run_;
  last_ = value;
  ++count_;
}

bool TargetOrder::is_sorted() const {
  return (rises_ || falls_) && count_ > kFewestSorted && count_ - first_run_ >= kFewestOthers &&
         count_ - last_run_ >= kFewestOthers;
}

void warn_of_sorted_targets(const LabelledExamples& examples,
                            const std::vector<std::vector<TargetOrder>>& orders) {
  if (!examples.warn_of_split) return;
  for (size_t part = 0; part < orders.size(); ++part) {
    if (part >= examples.sliced.size() || !examples.sliced[part]) continue;
    const auto sorted = std::find_if(orders[part].begin(), orders[part].end(),
                                     [](const TargetOrder& each) { return each.is_sorted(); });
    if (sorted == orders[part].end()) continue;
    examples.warn_of_split(
        part, fmt::format("the rows are sorted by target {}, which only {} from {} to {}, so the "
                          "rest of the split has other values; {}",
                          sorted - orders[part].begin(), sorted->rises() ? "rises" : "falls",
                          short_number(sorted->first()), short_number(sorted->last()), kTakeFolds));
  }
}

void warn_of_absent_classes(const LabelledExamples& examples, int64_t classes,
                            const std::vector<std::string>& class_names) {
  const auto sliced = std::find(examples.sliced.begin(), examples.sliced.end(), true);
  if (!examples.warn_of_split || sliced == examples.sliced.end()) return;
  const at::Tensor present = at::zeros({classes}, at::kBool);
  try {
    if (!labels_are_cheap(examples) || !labels_are_quick(examples, "labels")) return;
    results_in_order(
        examples.size, examples.threads,
        [&](int64_t i) { return classes_of_example(examples, i, classes); },
        [&](int64_t, const at::Tensor& found) {
          if (found.defined()) present.logical_or_(found);
        });
  } catch (const Error&) {
    return;  // the loader reports examples that cannot be read
  }
  std::vector<std::string> absent;
  for (int64_t c = 0; c < classes; ++c) {
    if (present[c].item<bool>()) continue;
    const bool named = std::ssize(class_names) == classes;
    absent.push_back(named ? class_names[c] : std::to_string(c));
  }
  if (absent.empty()) return;
  examples.warn_of_split(
      static_cast<size_t>(sliced - examples.sliced.begin()),
      fmt::format("no training example has {} of the {} classes: {}; if the rows are sorted by "
                  "their labels, {}",
                  absent.size(), classes, short_list(absent, /*counted=*/false), kTakeFolds));
}

}  // namespace bv
