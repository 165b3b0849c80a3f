// The part of Recipe that reads num_classes and compares it with the training data.
#include <set>

#include "lib/train/recipe.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::string_view kAuto = "auto";  // a value of num_classes
// `num_classes: auto` takes no larger number from data without class names: a label that large is
// probably no class number.
constexpr int64_t kMostUnnamed = 1'000'000;

}  // namespace

void Recipe::check_labels(const Config& input, bool has_classes) {
  const auto labels = first_.find("labels");
  if (labels == first_.end() || labels->second.dim() != 1) return;
  const int64_t classes = labels->second.size(0);
  if (!has_classes) data_env_.source.num_classes = num_classes = classes;  // for the other parts
  if (classes == num_classes) return;
  data_env_.source.num_classes = 0;  // evaluators must not say the same again
  input.fail("pp", fmt::format("gives 'labels' of {} classes but num_classes is {}", classes,
                               num_classes));
}

// Returns whether num_classes is good so far.
bool Recipe::read_num_classes() {
  const bool read = attempt(config, [&] {
    if (config.is_text("num_classes", kAuto))
      config.get<std::string>("num_classes");  // count_classes() replaces it
    else
      num_classes = config.get<int64_t>("num_classes");
  });
  if (num_classes >= 0) return read;
  config.problem("num_classes", "must not be negative");
  num_classes = 0;
  return false;
}

// Compares num_classes with the classes of the training data, or takes their number for `auto`.
void Recipe::count_classes(const Config& input) {
  const std::set<int64_t> labels = data->labels_of_splits();
  const auto named = std::ssize(classes_.names);
  const int64_t count = named > 0 ? named : labels.empty() ? 0 : *labels.rbegin() + 1;
  if (config.is_text("num_classes", kAuto)) {
    if (count < 1 || count > kMostUnnamed) {
      config.fail("num_classes",
                  "'auto' needs training data that names its classes, or whose labels are known "
                  "before its examples are read; give a number");
    }
    num_classes = data_env_.source.num_classes = count;
    config.replace("num_classes", count);
    pp = std::make_shared<Pipeline>(input, "pp");  // it may say onehot(num_classes, ...)
  }
  if (pp->class_count() != num_classes) return;  // the labels are not these classes
  const std::string list = named > 0 ? " (" + short_list(classes_.names) + ")" : "";
  if (num_classes < named) {  // without names, the check of the examples finds the label
    config.fail("num_classes", fmt::format("{} is less than the {} classes of {}{}; set it to {} "
                                           "or to auto",
                                           num_classes, named, classes_.owner, list, named));
  }
  std::vector<std::string> unused;
  for (int64_t label = named; label < num_classes && !labels.empty(); ++label) {
    if (!labels.contains(label)) unused.push_back(std::to_string(label));
  }
  if (!unused.empty()) {
    config.warn("num_classes",
                fmt::format("{} is more than the training data needs{}: no example has label {}",
                            num_classes, list, short_list(unused)));
  }
}

}  // namespace bv
