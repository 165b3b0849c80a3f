// Line charts as SVG, with axes, ticks at round numbers, a grid and a legend; without scripts. They
// are drawn for a narrow page, on which a chart is about kChartWidth px wide. A wider page shows
// several side by side and enlarges them a little, so text is never smaller than it is drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

struct Point {
  double x = 0, y = 0;
};

struct Line {
  enum class Look { plain, faint, bold };
  std::string name;           // in the legend; a line without a name is not in the legend
  std::vector<Point> points;  // in the order of x; a value that is not finite leaves a gap
  int color = 0;              // one of kChartColors, taken modulo
  Look look = Look::plain;
  std::optional<Point> best = {};  // marked with a ring, and its value is in the legend
};
constexpr int kChartColors = 8;

struct Chart {
  std::string title, x_label;
  std::vector<Line> lines;
  // Makes the y axis logarithmic if all values are positive and span a wide range.
  bool may_be_log = false;
  double x_least = 0;   // the x axis starts here, or at a point further left
  bool x_whole = true;  // only integers have a tick on the x axis, as steps and epochs
  // Draws 1 - y on a logarithmic axis, so that accuracies of 0.98 and 0.99 are far apart. Tooltips
  // and the legend keep y. Ignored if a value is not in [0, 1].
  bool error_scale = false;
  size_t most_lines = SIZE_MAX;  // further lines are left out, and the legend says how many
  bool y_from_zero = false;      // a linear y axis includes 0
  std::string note = {};         // short, below the plot
};

// Returns about `count` round numbers that cover [low, high].
std::vector<double> nice_ticks(double low, double high, int count);

// Returns at most `most` of the points, evenly spaced, including the first and the last.
std::vector<Point> thinned(const std::vector<Point>& points, size_t most);

// Replaces each value by the mean over about `window` neighbours, half of them on each side. Values
// that are not finite do not count.
std::vector<Point> smoothed(const std::vector<Point>& points, size_t window);
// Returns the window for a line of so many points; 1 if they are too few to be smoothed.
size_t smoothing_window(size_t points);

// Returns the CSS rules for charts, with light and dark colours.
std::string_view chart_style();

constexpr int kChartWidth = 340, kChartHeight = 256;  // the legend may make a chart higher
constexpr double kChartTickSize = 11.5;               // px, the smallest text

// Returns an <svg> element for an HTML page that includes chart_style().
std::string chart_svg(const Chart& chart);
// Returns a complete SVG file with the charts side by side.
std::string chart_file(const std::vector<Chart>& charts);

}  // namespace bv
