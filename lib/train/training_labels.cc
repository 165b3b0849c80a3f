#include "lib/train/training_labels.h"

namespace bv {
namespace {

TrainingData::Pick place_of(const TrainingData& data, int64_t index) {
  TrainingData::Pick pick = {0, index};
  while (pick.index >= data.parts()[pick.part].data->size())
    pick.index -= data.parts()[pick.part++].data->size();
  return pick;
}

}  // namespace

LabelCounts count_labels(const TrainingData& data) {
  LabelCounts all;
  for (const TrainingData::Part& part : data.parts()) {
    const LabelCounts counts = part.data->label_counts();
    if (counts.empty()) return {};
    for (const auto& [label, count] : counts) all[label] += count;
  }
  return all;
}

LabelledExamples labelled_examples(const TrainingData& data, uint64_t seed, int64_t error_budget) {
  LabelledExamples examples;
  examples.size = data.size();
  examples.error_budget = error_budget;
  examples.raw = [&data](int64_t index) {
    const TrainingData::Pick pick = place_of(data, index);
    return data.parts()[pick.part].data->read(pick.index);
  };
  examples.computed = [&data, seed](int64_t index) {
    return data.compute(place_of(data, index), seed, index);
  };
  examples.describe = [&data](int64_t index) { return data.describe(place_of(data, index)); };
  return examples;
}

}  // namespace bv
