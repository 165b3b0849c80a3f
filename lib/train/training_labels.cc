#include "lib/train/training_labels.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "lib/input/sources/common/manifest/label_column.h"
#include "lib/util/text.h"

namespace bv {
namespace {

TrainingData::Pick place_of(const TrainingData& data, int64_t index) {
  TrainingData::Pick pick = {0, index};
  while (pick.index >= data.parts()[pick.part].data->size())
    pick.index -= data.parts()[pick.part++].data->size();
  return pick;
}

// Returns the labels that a class name would be with `multilabel: true`.
std::set<std::string> parts_of(const std::string& name) {
  const std::vector<std::string_view> labels = several_labels(name, /*bars=*/true);
  return {labels.begin(), labels.end()};
}

}  // namespace

std::string several_labels_note(const Config& data, const Source& source) {
  const bool single = data.is_text("name", "csv") && !data.has("classes") &&
                      !data.is_text("multilabel", "true") && !source.classes_are_columns();
  if (!single) return "";
  const std::vector<std::string> names = source.class_names();
  std::map<std::string, int> frequency;  // of each part, in how many names it is
  int64_t divided = 0;
  for (const std::string& name : names) {
    const std::set<std::string> parts = parts_of(name);
    divided += parts.size() > 1;
    for (const std::string& part : parts) ++frequency[part];
  }
  if (2 * divided < std::ssize(names)) return "";  // they may be names with a ';'
  for (const std::string& name : names) {
    const std::set<std::string> parts = parts_of(name);
    const bool shared = std::any_of(parts.begin(), parts.end(),
                                    [&](const std::string& part) { return frequency[part] > 1; });
    if (parts.size() > 1 && shared)
      return fmt::format(
          "label '{}' looks like several labels; with multilabel: true they are read as such",
          name);
  }
  return "";
}

LabelCounts count_labels(const TrainingData& data) {
  double weights = 0;
  for (const TrainingData::Part& part : data.parts()) weights += part.weight;
  LabelCounts all;
  for (const TrainingData::Part& part : data.parts()) {
    const std::map<int64_t, int64_t> counts = part.data->label_counts();
    if (counts.empty()) return {};
    // How often an example of the data set comes in an epoch, which is data.size() examples.
    const double times = part.weight / weights * static_cast<double>(data.size()) /
                         static_cast<double>(part.data->size());
    for (const auto& [label, count] : counts) all[label] += times * static_cast<double>(count);
  }
  return all;
}

LabelledExamples labelled_examples(const TrainingData& data, uint64_t seed,
                                   const LoaderOptions& loader, const std::string& label_key) {
  LabelledExamples examples;
  examples.size = data.size();
  examples.parts.clear();
  int64_t next = 0;
  for (const TrainingData::Part& part : data.parts()) {
    examples.parts.push_back(next);
    examples.sliced.push_back(part.data->sliced_in_order());
    next += part.data->size();
  }
  examples.error_budget = loader.error_budget;
  examples.threads = std::max(loader.threads, 1);
  std::vector<Pipeline> label_ops;
  for (const TrainingData::Part& part : data.parts()) label_ops.push_back(part.pp->only(label_key));
  examples.quick = [&data, seed, label_ops](int64_t index) {
    const TrainingData::Pick pick = place_of(data, index);
    Example example = data.parts()[pick.part].data->read_values(pick.index);
    Rng rng(seed, Purpose::augment, static_cast<uint64_t>(index), {pick.index, pick.pass});
    label_ops[pick.part].apply(example, rng);
    return example;
  };
  examples.computed = [&data, seed](int64_t index) {
    return data.compute(place_of(data, index), seed, index);
  };
  examples.describe = [&data](int64_t index) { return data.describe(place_of(data, index)); };
  return examples;
}

std::function<at::Tensor()> spread_images(LabelledExamples examples, int64_t count,
                                          const std::optional<Normalization>& normalization) {
  count = std::min(count, examples.size);
  return [=, shape = std::vector<int64_t>(), next = int64_t{0}, failed = int64_t{0}]() mutable {
    while (next < count) {
      // In two parts, because count * examples.size may overflow.
      const int64_t index = examples.size / count * next + examples.size % count * next / count;
      ++next;
      Example example;
      try {
        example = examples.computed(index);
      } catch (const Error& error) {
        if (error.code() != Exit::data || ++failed > examples.error_budget) throw;
        continue;
      }
      const at::Tensor& image = example.at("image");
      if (shape.empty()) shape = image.sizes().vec();
      if (image.sizes() != at::IntArrayRef(shape)) {
        throw Error(Exit::usage, examples.describe(index),
                    fmt::format("'image' is {}, unlike other examples' {}",
                                shape_text(image.sizes()), shape_text(shape)));
      }
      if (at::isFloatingType(image.scalar_type()) && !image.isfinite().all().item<bool>()) continue;
      if (image.scalar_type() == at::kByte && normalization)
        return normalize(image, *normalization);
      return image;
    }
    return at::Tensor();
  };
}

}  // namespace bv
