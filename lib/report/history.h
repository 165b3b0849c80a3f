// All metrics of a run so far, as the report draws them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/report/row.h"

namespace bv {

// (step, value) in the order of steps.
using Points = std::vector<std::pair<int64_t, double>>;

// A series that grows beyond kMostPoints is thinned evenly: only every second, fourth, ... point is
// kept, and always the newest.
struct History {
  static constexpr size_t kMostPoints = 4096;
  // What thinning must not lose.
  struct Summary {
    int64_t count = 0;   // points added
    int64_t stride = 1;  // every stride-th of them is in the series
    // The first point with the smallest value, and the first with the largest. NaN does not count,
    // and neither do values from before a change of what is measured. Valid only if has_extremes.
    std::pair<int64_t, double> min, max;
    bool has_extremes = false;
    void note_extremes(int64_t step, double value);
  };
  std::map<std::string, Points> series;      // by metric
  std::map<std::string, Summary> summaries;  // by metric

  void add(int64_t step, const Row& row);
};

}  // namespace bv
