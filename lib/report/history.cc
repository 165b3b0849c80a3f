#include <cmath>

#include "lib/report/metrics.h"

namespace bv {
namespace {

void note_extremes(History::Summary& summary, int64_t step, double value) {
  if (std::isnan(value)) return;
  if (!summary.has_extremes || value < summary.least.second) summary.least = {step, value};
  if (!summary.has_extremes || value > summary.greatest.second) summary.greatest = {step, value};
  summary.has_extremes = true;
}

}  // namespace

void History::add(int64_t step, const Row& row) {
  for (const auto& [name, value] : row) {
    Points& points = series[name];
    Summary& summary = summaries[name];
    note_extremes(summary, step, value);
    // Between two points of the stride, the last of the series is only the newest value.
    const bool provisional = summary.count > 0 && (summary.count - 1) % summary.stride != 0;
    if (provisional) points.pop_back();
    points.emplace_back(step, value);
    ++summary.count;
    if (points.size() <= kMostPoints) continue;
    size_t kept = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      if (i % 2 == 0 || i + 1 == points.size()) points[kept++] = points[i];
    }
    points.resize(kept);
    summary.stride *= 2;
  }
}

}  // namespace bv
