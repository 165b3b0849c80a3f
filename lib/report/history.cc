#include "lib/report/history.h"

#include <cmath>

namespace bv {

void History::Summary::note_extremes(int64_t step, double value) {
  if (std::isnan(value)) return;
  if (!has_extremes || value < min.second) min = {step, value};
  if (!has_extremes || value > max.second) max = {step, value};
  has_extremes = true;
}

void History::add(int64_t step, const Row& row) {
  for (const auto& [name, value] : row) {
    Points& points = series[name];
    Summary& summary = summaries[name];
    summary.note_extremes(step, value);
    // The last point is always the newest value. If its index is not a multiple of the stride, the
    // next value replaces it.
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
