#include "lib/report/page/chart_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/report/page/chart_text.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Scale = ChartAxis::Scale;

constexpr double kLogRatio = 30;      // maximum / minimum from which a logarithmic axis is used
constexpr double kLargest = 1e300;    // larger values are not drawn: ranges would overflow
constexpr double kSmallest = 1e-100;  // minimum value on a logarithmic axis
// Values with a smaller relative difference are drawn as equal: single-precision numbers have that
// much rounding error.
constexpr double kRounding = 1e-6;
constexpr double kMostDecades = 2.8;  // of an axis with ticks at 1, 2 and 5 times powers of ten
constexpr double kZeroRoom = 18;      // px between the smallest error and an error of 0

struct Range {
  double low = 0, high = 0;
  bool empty = true;
  void add(double value) {
    low = empty ? value : std::min(low, value);
    high = empty ? value : std::max(high, value);
    empty = false;
  }
};

template <typename Add>
void for_each_drawn(const Chart& chart, const Add& add) {
  for (const Line& line : chart.lines) {
    for (const Point& point : line.points) {
      if (can_be_drawn(point.x) && can_be_drawn(point.y)) add(point);
    }
  }
}

std::string tick_label(double value, double spacing) {
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  if (magnitude >= 1e4 || magnitude < 1e-4) {
    const int digits = static_cast<int>(std::ceil(std::log10(magnitude / spacing) - 1e-9)) + 1;
    return digits <= 4 ? short_number(value) : fmt::format("{:.{}g}", value, digits);
  }
  const int decimals = std::clamp(-static_cast<int>(std::floor(std::log10(spacing) + 1e-9)), 0, 8);
  return fmt::format("{:.{}f}", value, decimals);
}

// Adds ticks at 1, 2 and 5 times the powers of ten in [low, high]; only at the powers, or some of
// them, if there are many.
void add_log_ticks(ChartAxis& axis) {
  const bool few = std::log10(axis.high / axis.low) < kMostDecades;
  const int first = static_cast<int>(std::floor(std::log10(axis.low)));
  const int last = static_cast<int>(std::ceil(std::log10(axis.high)));
  const int every = few ? 1 : std::max(1, (last - first) / 6);
  for (int power = first; power <= last; power += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && !few) break;
      const double tick = factor * std::pow(10, power);
      if (tick < axis.low * 0.999 || tick > axis.high * 1.001) continue;
      const double value = axis.scale == Scale::error ? 1 - tick : tick;
      axis.ticks.push_back({axis.place(value), tick_label(tick, tick)});
    }
  }
}

// Of the numbers 1, 2 and 5 times powers of ten: the largest that is at most `value`, and the
// smallest that is at least `value`.
double round_below(double value) {
  const double power = std::pow(10, std::floor(std::log10(value) + 1e-9));
  for (const double factor : {5.0, 2.0}) {
    if (factor * power <= value * (1 + 1e-9)) return factor * power;
  }
  return power;
}
double round_above(double value) {
  const double power = std::pow(10, std::floor(std::log10(value) + 1e-9));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// Makes the axis show 1 - value. Returns false if a value is not in [0, 1].
bool make_error_axis(const Chart& chart, ChartAxis& axis) {
  Range errors;
  bool shares = true, has_zero = false;
  for_each_drawn(chart, [&](const Point& point) {
    const double error = 1 - point.y;
    shares = shares && error > -1e-9 && error < 1 + 1e-9;
    if (error > 1e-9) {
      errors.add(error);
    } else {
      has_zero = true;
    }
  });
  if (!shares) return false;
  if (errors.empty) errors.add(0.1);
  axis.scale = Scale::error;
  axis.low = round_below(errors.low);
  axis.high = round_above(errors.high);
  if (axis.high < 1.5 * axis.low) axis.low = round_below(axis.low / 2);  // a single round error
  axis.zero = axis.from;
  if (has_zero) {
    axis.ticks.push_back({axis.zero, "0"});
    axis.from -= kZeroRoom;
  }
  add_log_ticks(axis);
  return true;
}

void make_linear_axis(const Chart& chart, const Range& range, ChartAxis& axis) {
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  double room = 0.04 * (range.high - range.low);
  if (range.high - range.low <= kRounding * size) room = size > 0 ? 0.05 * size : 1;
  axis.low = range.low - room;
  axis.high = range.high + room;
  if (range.low >= 0) axis.low = std::max(axis.low, 0.0);  // not below 0 if no value is
  if (chart.y_from_zero) axis.low = std::min(axis.low, 0.0);
  const std::vector<double> ticks = nice_ticks(axis.low, axis.high, 5);
  const double spacing = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  for (const double tick : ticks) {
    if (tick < axis.low || tick > axis.high) continue;
    axis.ticks.push_back({axis.place(tick), tick_label(tick, spacing)});
  }
}

}  // namespace

bool can_be_drawn(double value) { return std::abs(value) < kLargest; }  // false for NaN

double ChartAxis::place(double value) const {
  if (scale == Scale::linear) return from + (value - low) / (high - low) * (to - from);
  const double shown = scale == Scale::error ? 1 - value : value;
  if (scale == Scale::error && shown <= 1e-9) return zero;
  const double share = (std::log(shown) - std::log(low)) / (std::log(high) - std::log(low));
  return from + share * (to - from);
}

ChartAxis chart_x_axis(const Chart& chart, double from, double to) {
  Range range;
  for_each_drawn(chart, [&](const Point& point) { range.add(point.x); });
  ChartAxis axis;
  axis.low = range.empty ? 0 : std::min(range.low, chart.x_least);
  axis.high = range.empty ? 1 : range.high;
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  axis.from = from;
  axis.to = to;
  for (const int count : {5, 3, 2}) {
    axis.ticks.clear();
    double widest = 0;
    const std::vector<double> ticks = nice_ticks(axis.low, axis.high, count);
    const double spacing = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
    for (const double tick : ticks) {
      if (tick < axis.low || tick > axis.high) continue;
      if (chart.x_whole && tick != std::floor(tick)) continue;
      axis.ticks.push_back({axis.place(tick), tick_label(tick, spacing)});
      widest = std::max(widest, text_width(axis.ticks.back().label, kChartTickSize));
    }
    if (spacing / (axis.high - axis.low) * (to - from) > widest + 6) break;
  }
  return axis;
}

ChartAxis chart_y_axis(const Chart& chart, double from, double to) {
  Range range;
  for_each_drawn(chart, [&](const Point& point) { range.add(point.y); });
  ChartAxis axis;
  axis.from = from;
  axis.to = to;
  if (range.empty) return axis;
  if (chart.error_scale && make_error_axis(chart, axis)) return axis;
  if (chart.may_be_log && range.low > kSmallest && range.high / range.low > kLogRatio) {
    axis.scale = Scale::log;
    axis.low = range.low / 1.15;
    axis.high = range.high * 1.15;
    add_log_ticks(axis);
  } else {
    make_linear_axis(chart, range, axis);
  }
  return axis;
}

std::vector<double> nice_ticks(double low, double high, int count) {
  const double raw = (high - low) / std::max(count, 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  if (!(power > 0) || !std::isfinite(power)) return {low};
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= raw * 0.7) step = factor * power;
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step);
  for (int i = 0; i <= 2 * count + 2; ++i) {
    ticks.push_back((first + i) * step);
    if (ticks.back() >= high * (1 - 1e-12)) break;
  }
  return ticks;
}

}  // namespace bv
