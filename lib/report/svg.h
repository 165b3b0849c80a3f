// Line charts as SVG: axes with ticks at nice numbers, grid, legend; no scripts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/report/metrics.h"

namespace bv {

// `text` for HTML and SVG: & < > " ' escaped, control characters dropped, invalid UTF-8 replaced.
std::string escape(std::string_view text);

// A number for people: 4 significant digits, thousands as k, M, G.
std::string short_number(double value);

struct Point {
  double x = 0, y = 0;
};

struct Line {
  enum class Look { plain, faint, bold };
  std::string name;           // for the legend; empty: not in it
  std::vector<Point> points;  // in order of x; a value that is not finite makes a gap
  int color = 0;              // of kChartColors, taken modulo
  Look look = Look::plain;
};
constexpr int kChartColors = 8;

struct Chart {
  std::string title, x_label;
  std::vector<Line> lines;
  bool may_be_log = false;  // y is logarithmic if all values are positive and far apart
  double x_least = 0;       // the x axis begins here, or left of it
};

// Round numbers that cover [low, high], about `count` of them.
std::vector<double> nice_ticks(double low, double high, int count);

// At most `most` of the points, evenly taken, the last among them.
std::vector<Point> thinned(const std::vector<Point>& points, size_t most);

// The mean over about `window` neighbours on both sides together; values that are not finite are
// left out of the means.
std::vector<Point> smoothed(const std::vector<Point>& points, size_t window);

// The colours of charts in light and dark, as CSS rules on their classes.
std::string_view chart_style();

constexpr int kChartWidth = 640, kChartHeight = 340;

// An <svg> element, to stand in HTML.
std::string chart_svg(const Chart& chart);
// A whole SVG file of charts side by side.
std::string chart_file(const std::vector<Chart>& charts);

}  // namespace bv
