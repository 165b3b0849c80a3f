#include "lib/init/label_vectors.h"

#include <ATen/core/Tensor.h>

#include "lib/init/found_source.h"
#include "lib/input/dataset.h"
#include "lib/report/log.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kKeptValues = 3;

void need_share(double value, size_t column, const Dataset& data, int64_t index) {
  if (value >= 0 && value <= 1) return;
  const std::vector<std::string> names = data.source().class_names();
  throw Error(
      Exit::usage, data.describe(index),
      fmt::format("the column '{}' holds {}, but columns of classes hold 0 and 1: use "
                  "--task regress if these are numbers to predict",
                  column < names.size() ? printable(names[column]) : "label", json_number(value)));
}

LabelVectors vectors_of(const Dataset& data, bool of_classes, VectorStatistics statistics) {
  LabelVectors all;
  all.of_classes = of_classes;
  for (int64_t i = 0; i < data.size(); ++i) {
    const at::Tensor labels = data.read_values(i).at("labels").contiguous();
    const auto width = static_cast<size_t>(labels.numel());
    if (i == 0) {
      all.columns.resize(width);
      all.orders.resize(width);
      all.values.resize(width);
      all.counts.resize(width);
    }
    int64_t classes = 0;
    for (size_t c = 0; c < width; ++c) {
      const double value = labels.const_data_ptr<float>()[c];
      if (of_classes) need_share(value, c, data, i);
      if (statistics == VectorStatistics::all) {
        all.columns[c].add(value);
        all.orders[c].add(value);
      }
      if (!of_classes && all.values[c].size() < kKeptValues) all.values[c].insert(value);
      all.counts[c] += value >= 0.5;
      classes += value >= 0.5;
      all.soft |= value != 0 && value != 1;
    }
    all.without_class += classes == 0;
    all.several += classes > 1;
    ++all.examples;
    log::progress(
        fmt::format("labels: {} of {} rows", human_count(i + 1), human_count(data.size())));
  }
  log::clear_progress();
  return all;
}

}  // namespace

LabelVectors read_vectors(const DataFindings& found, const DataKeys& keys,
                          const std::shared_ptr<const Source>& source, const std::string& split,
                          VectorStatistics statistics) {
  try {
    return vectors_of(Dataset(source, split, Place{found.folder}),
                      found.task == LabelTask::multilabel, statistics);
  } catch (const Error& error) {
    if (error.code() != Exit::data) throw;
    // Skipping the rows would hide labels that the user has forgotten. Without tolerance for broken
    // rows, the source lists them all.
    const auto strict = open_source(found, keys, /*keep_broken=*/false);
    strict->size(index_of(*strict, strict->splits().at(0)));
    throw Error(Exit::usage, error.where(), error.message());
  }
}

}  // namespace bv
