#include "lib/init/vector_findings.h"

#include <cstdlib>
#include <vector>

#include "lib/init/label_vectors.h"
#include "lib/init/validation_part.h"
#include "lib/util/error.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns a number that was read as float32 with the digits that it had: 0.1, not 0.10000000149.
double as_written(double value) {
  return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr);
}

// Fills in the targets. `train`: without the examples that are set aside.
void describe_targets(const Source& source, const LabelVectors& all, const LabelVectors& train,
                      DataFindings& found) {
  const std::vector<std::string> names = source.class_names();
  for (size_t t = 0; t < names.size(); ++t) {
    const RunningSpread& spread = all.columns.at(t);
    found.targets.push_back(
        {names[t], as_written(spread.least()), spread.mean(), as_written(spread.most())});
    const std::string name = fmt::format("target '{}'", printable(names[t]));
    const std::string why = unlearnable(train.columns.at(t), name);
    if (!why.empty()) throw Error(Exit::usage, source.labels_file(0), why);
    if (all.values.at(t).size() > 2) continue;
    const double least = found.targets.back().least, most = found.targets.back().most;
    found.notes.push_back(fmt::format(
        "{} is {} or {} in every row; if {}", name, json_number(least), json_number(most),
        least == 0 && most == 1 ? "1 means that an image has a class, use --task multilabel"
                                : "these are two classes, use --task classify"));
  }
}

// Returns the names of the classes that have examples, but none in `part`.
std::vector<std::string> missing_in(const LabelVectors& part, const DataFindings& found) {
  std::vector<std::string> missing;
  for (size_t c = 0; c < found.classes.size(); ++c) {
    if (part.counts.at(c) == 0 && found.classes[c].examples > 0)
      missing.push_back(found.classes[c].name);
  }
  return missing;
}

void warn_of_classes(const LabelVectors& all, const LabelVectors& train,
                     const LabelVectors& validation, DataFindings& found) {
  const int64_t others = all.several + all.without_class + validation.several +
                         validation.without_class;  // images without exactly one class
  if (found.classes.size() > 1 && others == 0) {
    found.warnings.push_back(fmt::format(
        "every image has exactly one class: --task classify{} suits such data better",
        found.labels.list ? ", with one column that names the class," : ", the default,"));
  }
  for (const FoundClass& one : found.classes) {
    if (one.examples == all.examples)
      found.warnings.push_back(fmt::format("every training image has the class '{}'", one.name));
  }
  if (!found.sliced) return;
  for (const auto& [split, part] :
       {std::pair(found.train, &train), std::pair(found.validation, &validation)}) {
    const std::vector<std::string> missing = missing_in(*part, found);
    if (missing.empty()) continue;
    found.warnings.push_back(fmt::format("split '{}' has no image with {} of the {} classes: {}",
                                         split, missing.size(), found.classes.size(),
                                         short_list(missing, /*counted=*/false)));
  }
}

void describe_classes(const Source& source, const LabelVectors& all, const LabelVectors& train,
                      const LabelVectors& validation, DataFindings& found) {
  const std::vector<std::string> names = source.class_names();
  for (size_t c = 0; c < names.size(); ++c) {
    found.classes.push_back({.name = names[c],
                             .examples = all.counts.at(c),
                             .validation = found.sliced ? 0 : validation.counts.at(c)});
  }
  found.without_class = all.without_class;
  found.soft_labels = all.soft || validation.soft;
  if (all.without_class == all.examples)
    throw Error(Exit::usage, source.labels_file(0), "no training image has a class");
  if (found.soft_labels) {
    found.notes.emplace_back(
        "some labels are neither 0 nor 1: they are taken as soft labels, and those of at least 0.5 "
        "count as classes");
  }
  warn_of_classes(all, train, validation, found);
}

}  // namespace

void read_label_vectors(const std::shared_ptr<const Source>& source,
                        const std::shared_ptr<const Source>& other, const std::string& split,
                        DataFindings& found) {
  const DataKeys& keys = found.data.train;
  const DataKeys& other_keys = found.data.validation.empty() ? keys : found.data.validation;
  const LabelVectors all = read_vectors(found, keys, source, split);
  LabelVectors validation = read_vectors(found, other_keys, other, found.validation);
  if (found.sliced && !may_be_random(validation, all)) {
    use_folds(split, found);
    validation = read_vectors(found, keys, source, found.validation);
  }
  const LabelVectors train = found.sliced ? read_vectors(found, keys, source, found.train) : all;
  if (found.task != LabelTask::regress)
    return describe_classes(*source, all, train, validation, found);
  describe_targets(*source, all, train, found);
  if (validation.examples == 1) {
    found.warnings.emplace_back(
        "there is only one validation image: the metric r2 needs at least two");
  }
}

}  // namespace bv
