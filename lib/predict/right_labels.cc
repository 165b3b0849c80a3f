#include "lib/predict/right_labels.h"

#include <algorithm>

namespace bv {
namespace {

constexpr const char* kMultilabel = "multilabel";  // of the task classify and of class_metrics
constexpr const char* kThreshold = "threshold";    // of class_metrics

bool task_says_multilabel(const Config& config) {
  return config.section("task_kw").get<bool>(kMultilabel, false);
}

// Returns the true classes, given one value for each class: 0 or 1, or shares. As in the
// evaluators, these are the class with the largest share or, with `multilabel`, all classes with a
// share of at least 1/2.
std::vector<int64_t> right_classes(const at::Tensor& values, bool multilabel) {
  const at::Tensor dense = values.to(at::kDouble).contiguous();
  const double* begin = dense.const_data_ptr<double>();
  const double* end = begin + dense.numel();
  const bool hard = std::all_of(begin, end, [](double value) { return value == 0 || value == 1; });
  if (!hard && !multilabel) return {std::max_element(begin, end) - begin};
  std::vector<int64_t> classes;
  for (const double* value = begin; value != end; ++value)
    if (*value >= 0.5) classes.push_back(value - begin);
  return classes;
}

}  // namespace

bool labels_tell_presence(const Config& config) {
  return task_says_multilabel(config) && config.get<int64_t>("num_classes", 0) == 1;
}

RightLabels::RightLabels(const Config& config, bool numbers)
    : numbers_(numbers),
      multilabel_(!numbers && task_says_multilabel(config)),
      tell_presence_(!numbers && labels_tell_presence(config)) {}

RightLabels::RightLabels(const Config& config, const Config& evaluator, const Pipeline& pp,
                         bool numbers)
    : key_(evaluator.get("label_key", "labels")),
      source_(pp.made_from(key_)),
      made_(source_ != key_),
      numbers_(numbers) {
  multilabel_ = !numbers && evaluator.get<bool>(kMultilabel, task_says_multilabel(config));
  threshold_ = evaluator.get<double>(kThreshold, threshold_);
  have_names_of_data_ = pp.uses_data_labels(key_);
}

std::optional<RightLabel> RightLabels::of(const Example& computed, const Dataset& data,
                                          int64_t index) const {
  for (const std::string& key : keys()) {
    const auto found = computed.find(key);
    if (found != computed.end()) return read(found->second);
  }
  const Example raw = data.read_values(index);
  auto found = raw.find(source_);
  if (found == raw.end() && !made_) found = raw.find(kLabel);
  if (found == raw.end()) return std::nullopt;
  const at::Tensor& value = found->second;
  if (numbers_ || at::isFloatingType(value.scalar_type())) return read(value);
  if (value.numel() == 1 && value.scalar_type() != at::kByte) return read(value.reshape({}));
  // The integers may be classes, or one value for each class.
  return made_ ? std::nullopt : read(value);
}

std::optional<RightLabel> RightLabels::read(const at::Tensor& value) const {
  const bool text = value.dim() == 1 && value.scalar_type() == at::kByte;
  if (text || value.dim() > 1 || value.numel() == 0) return std::nullopt;
  RightLabel label;
  if (numbers_) {
    const at::Tensor dense = value.to(at::kFloat).contiguous();
    label.values.assign(dense.const_data_ptr<float>(),
                        dense.const_data_ptr<float>() + dense.numel());
    return label;
  }
  if (value.dim() == 1) {
    label.classes = right_classes(value, multilabel_);
    return label;
  }
  if (!at::isIntegralType(value.scalar_type(), /*includeBool=*/false)) return std::nullopt;
  const auto number = value.item<int64_t>();
  if (tell_presence_ && number <= 1) {
    if (number == 1) label.classes = {0};
  } else if (number >= 0) {
    label.classes = {number};
  }
  return label;
}

}  // namespace bv
