// Labels that are vectors, in the feature `labels`: regression targets, or a number from 0 to 1 for
// each class.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/init/data_findings.h"
#include "lib/input/source.h"
#include "lib/tasks/sliced_labels.h"
#include "lib/tasks/target_spread.h"

namespace bv {

// What read_vectors() finds out.
enum class VectorStatistics { counts, all };

struct LabelVectors {
  bool of_classes = false;
  int64_t examples = 0;
  // Of each target or class. With VectorStatistics::counts, no value is added to `columns` and
  // `orders`.
  std::vector<RunningSpread> columns;
  std::vector<TargetOrder> orders;
  std::vector<std::set<double>> values;  // the first three different ones, of targets
  std::vector<int64_t> counts;           // examples with at least 0.5, which have the class
  // How many examples have no class, and more than one.
  int64_t without_class = 0, several = 0;
  bool soft = false;  // some values are neither 0 nor 1
};

// Reads the labels of the examples that `split` selects, without their images. `keys`: with which
// the source was opened, found.data.train or validation. Throws Error(Exit::usage) with a line for
// each broken row. Also throws it at the first row in which a class has a value outside 0 to 1.
LabelVectors read_vectors(const DataFindings& found, const DataKeys& keys,
                          const std::shared_ptr<const Source>& source, const std::string& split,
                          VectorStatistics statistics = VectorStatistics::all);

}  // namespace bv
