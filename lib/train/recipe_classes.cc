// Recipe's code that reads num_classes and compares it with the classes of the training data.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/class_map.h"
#include "lib/train/recipe.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::string_view kAuto = "auto";  // a value of num_classes

}  // namespace

// Finds the run's classes: those of the checkpoint, or else those of the first data set with class
// names. They number the examples of every data set, even of data sets before the first one with
// names. So a restart, which takes the classes from the checkpoint, gives the same numbers.
void Recipe::find_classes() {
  for (const InputPart& part : inputs_) {
    if (!classes_.names.empty()) return;
    classes_.names = part.open(std::nullopt)->class_names();
  }
}

void Recipe::check_labels(const Config& input, bool has_classes) {
  const auto labels = first_.find("labels");
  if (labels == first_.end() || labels->second.dim() != 1) return;
  const int64_t classes = labels->second.size(0);
  if (!has_classes) data_env_.source.num_classes = num_classes = classes;  // for the other parts
  if (classes == num_classes) return;
  data_env_.source.num_classes = 0;  // evaluators must not repeat the same message
  input.fail("pp", fmt::format("gives 'labels' of {} {} but num_classes is {}", classes,
                               data_env_.labels_are_numbers ? "numbers" : "classes", num_classes));
}

// Returns whether num_classes is valid so far.
bool Recipe::read_num_classes() {
  const bool automatic = config.is_text("num_classes", kAuto);
  // --dry-run builds two recipes from one config, and the first one replaces `auto`.
  config_counts_classes_ = config.was_replaced("num_classes");
  const bool read = attempt(config, [&] {
    if (automatic)
      config.get<std::string>("num_classes");  // count_classes() replaces it
    else
      num_classes = config.get<int64_t>("num_classes");
  });
  const bool positive = num_classes >= 0;
  if (!positive) {
    config.problem("num_classes", "must not be negative");
    num_classes = 0;
  }
  classes_known_ = read && positive && !automatic;
  return read && positive;
}

// Compares num_classes with the classes of the training data, or sets it to their number if `auto`.
void Recipe::count_classes() {
  const std::set<int64_t>& trained = data_env_.classes->trained;
  const std::set<int64_t> labels = trained.empty() ? data->labels_of_splits() : trained;
  const auto named = std::ssize(classes_.names);
  if (config.is_text("num_classes", kAuto)) {
    if (!inputs_[0].training.pp->uses_data_labels()) {
      config.fail(
          "num_classes",
          fmt::format("'auto' counts the classes of the feature 'label', but input.pp makes "
                      "the labels from '{}'; give a number",
                      inputs_[0].training.pp->made_from("labels")));
    }
    if (data_env_.synthetic && named == 0 && labels.empty()) {
      config.fail("num_classes",
                  "'auto' counts the classes of the data, which --synthetic does not read; give a "
                  "number, e.g. --set num_classes=10");
    }
    std::vector<std::shared_ptr<const Dataset>> all;
    for (const TrainingData::Part& part : data->parts()) all.push_back(part.data);
    num_classes = bv::count_classes(config, classes_.names, labels, all);
    data_env_.source.num_classes = num_classes;
    config.replace("num_classes", num_classes);
    config_counts_classes_ = true;
  }
  // With `auto`, onehot(num_classes) always fits. Other labels are not these classes.
  if (!config_counts_classes_ && inputs_[0].training.pp->class_count() != num_classes) return;
  const std::string list = named > 0 ? " (" + short_list(classes_.names) + ")" : "";
  if (num_classes < named) {  // without names, the check of the examples finds the label
    std::vector<std::string> absent;
    for (int64_t label = 0; label < named && !labels.empty(); ++label) {
      if (!labels.contains(label)) absent.push_back(classes_.names[label]);
    }
    const std::string note =
        absent.empty() ? "" : ", though no training example belongs to class " + short_list(absent);
    config.fail("num_classes",
                fmt::format("{} is less than the {} classes of {}{}{}; set it to {} or to auto",
                            num_classes, named, classes_.owner, list, note, named));
  }
  std::vector<std::string> unused;
  for (int64_t label = named; label < num_classes && !labels.empty(); ++label) {
    if (!labels.contains(label)) unused.push_back(std::to_string(label));
  }
  if (unused.empty()) return;
  const bool may_be_numbers = config_counts_classes_ && named == 0 && !data_env_.labels_are_numbers;
  if (may_be_numbers && looks_like_numbers(std::ssize(unused), num_classes)) {
    config.warn("num_classes",
                fmt::format("auto took the integers {} to {} in the labels as classes, and {} "
                            "numbers below {} do not occur; to predict numbers, use task: regress",
                            *labels.begin(), *labels.rbegin(), unused.size(), num_classes));
    return;
  }
  config.warn("num_classes",
              fmt::format("{} is more than the training data needs{}: no example has label {}",
                          num_classes, list, short_list(unused)));
}

}  // namespace bv
