// The axes of a chart: which values they show, where, and with which ticks.
#pragma once

#include <string>
#include <vector>

#include "lib/report/page/chart.h"

namespace bv {

// Whether a chart draws the value: NaN, infinities and values whose range would overflow are gaps.
bool can_be_drawn(double value);

struct ChartTick {
  double at = 0;  // in px
  std::string label;
};

struct ChartAxis {
  // linear and log: a value is placed by itself. error: by 1 - value, on a logarithmic scale; an
  // error of 0 has its own place at the end of the axis.
  enum class Scale { linear, log, error };
  Scale scale = Scale::linear;
  double low = 0, high = 1;  // the smallest and the largest value (or error) on the axis
  double from = 0, to = 1;   // the places of low and high, in px
  double zero = 0;           // the place of an error of 0
  std::vector<ChartTick> ticks;

  double place(double value) const;
};

// Returns the horizontal axis, as of steps or epochs. Its labels do not overlap.
ChartAxis chart_x_axis(const Chart& chart, double from, double to);
// Returns the axis of the values. `from` is its lower end.
ChartAxis chart_y_axis(const Chart& chart, double from, double to);

}  // namespace bv
