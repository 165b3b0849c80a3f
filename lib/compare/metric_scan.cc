#include "lib/compare/metric_scan.h"

#include <string_view>
#include <utility>

#include "lib/report/metric_row.h"
#include "lib/util/file.h"
#include "lib/util/mapped_file.h"

namespace bv {
namespace {

void add_point(MetricSeries& series, MetricSeries::StepValue value) {
  // The last point is always the newest value. If its index is not a multiple of the stride, the
  // next value replaces it.
  if (series.count > 1 && (series.count - 2) % series.stride != 0) series.points.pop_back();
  series.points.push_back(value);
  if (series.points.size() <= MetricSeries::kMostPoints) return;
  size_t kept = 0;
  for (size_t i = 0; i < series.points.size(); i += 2) series.points[kept++] = series.points[i];
  series.points.resize(kept);
  series.stride *= 2;
}

// Only values after the step `measured_from` count as minimum or maximum.
void add_value(MetricSeries& series, MetricSeries::StepValue value, int64_t measured_from,
               bool with_curves) {
  series.previous = std::exchange(series.last, value);
  ++series.count;
  if (value.second == value.second && value.first > measured_from) {
    if (!series.has_extremes || value.second < series.min.second) series.min = value;
    if (!series.has_extremes || value.second > series.max.second) series.max = value;
    series.has_extremes = true;
  }
  if (with_curves) add_point(series, value);
}

class Scanner {
 public:
  Scanner(bool with_curves, const MeasuredAnew& changed)
      : with_curves_(with_curves), changed_(changed) {}

  // Returns false, and adds nothing, if the line is not a row after the last one.
  bool add(std::string_view line) {
    const auto step = reader_.read(line);
    if (!step || (scan_.rows > 0 && *step <= scan_.last_step)) return false;
    scan_.last_step = *step;
    ++scan_.rows;
    for (const auto& [number, value] : reader_.values()) {
      while (series_.size() <= number) {
        measured_from_.push_back(
            last_step_before_change(changed_, reader_.names()[series_.size()]));
        series_.emplace_back();
      }
      add_value(series_[number], {*step, value}, measured_from_[number], with_curves_);
    }
    return true;
  }
  void note_damaged(int64_t line) {
    if (scan_.damaged++ == 0) scan_.first_damaged = line;
  }
  void note_cut(int64_t line) { scan_.cut_line = line; }
  MetricScan finish() {
    for (size_t i = 0; i < series_.size(); ++i) {
      if (series_[i].count == 0) continue;  // its name occurs in a damaged line only
      scan_.series.emplace(reader_.names()[i], std::move(series_[i]));
    }
    return std::move(scan_);
  }

 private:
  bool with_curves_;
  const MeasuredAnew& changed_;
  MetricScan scan_;
  MetricRowReader reader_;
  std::vector<MetricSeries> series_;    // by number of the metric
  std::vector<int64_t> measured_from_;  // by number: last_step_before_change()
};

}  // namespace

MetricScan scan_metrics(const std::string& file, bool with_curves, const MeasuredAnew& changed) {
  Scanner scanner(with_curves, changed);
  if (!file_exists(file)) return scanner.finish();
  const MappedFile mapped(file);
  std::string_view rest(reinterpret_cast<const char*>(mapped.bytes().data()),
                        mapped.bytes().size());
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) {
      scanner.note_cut(number);
      break;
    }
    if (!scanner.add(rest.substr(0, end))) scanner.note_damaged(number);
    rest.remove_prefix(end + 1);
  }
  return scanner.finish();
}

}  // namespace bv
