#include "lib/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/report/html.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr double kLeft = 62, kRight = 18, kTop = 58, kBottom = 46;  // around the plot, in px
constexpr double kCharWidth = 6.7;  // average width of a letter in the legend, in px
constexpr size_t kMostMarked = 60;  // a line with more points is drawn without dots
constexpr size_t kLongestName = 34;
constexpr double kLogRatio = 30;    // greatest / least value from which a logarithmic axis is used
constexpr double kLargest = 1e300;  // larger values are not drawn: ranges would overflow
constexpr double kSmallest = 1e-100;  // least value on a logarithmic axis

bool usable(double value) { return std::abs(value) < kLargest; }  // false for NaN

// One axis of the plot: which values it shows, and where.
struct Axis {
  double low = 0, high = 1;
  bool log = false;
  double from = 0, to = 1;  // the places of low and high, in px
  std::vector<double> ticks;

  double place(double value) const {
    const double a = log ? std::log(low) : low, b = log ? std::log(high) : high;
    return from + ((log ? std::log(value) : value) - a) / (b - a) * (to - from);
  }
};

struct Range {
  double low = 0, high = 0;
  bool empty = true;
  void add(double value) {
    low = empty ? value : std::min(low, value);
    high = empty ? value : std::max(high, value);
    empty = false;
  }
};

// Returns 1, 2 and 5 times the powers of ten in [low, high]; only the powers, or some of them, if
// there are many.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  const bool few = std::log10(high / low) < 3.2;
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  const int every = few ? 1 : std::max(1, (last - first) / 6);
  for (int power = first; power <= last; power += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && !few) break;
      const double tick = factor * std::pow(10, power);
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::string tick_label(double value, double spacing) {
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  if (magnitude >= 1e4 || magnitude < 1e-4) return short_number(value);
  const int decimals = std::clamp(-static_cast<int>(std::floor(std::log10(spacing) + 1e-9)), 0, 8);
  return fmt::format("{:.{}f}", value, decimals);
}

std::string clipped(const std::string& name) {
  // A long name keeps its end, which is what differs between names.
  if (name.size() <= kLongestName || !valid_utf8(name)) return name.substr(0, kLongestName);
  size_t start = name.size() - kLongestName + 3;
  while ((static_cast<unsigned char>(name[start]) & 0xC0) == 0x80) ++start;
  return "..." + name.substr(start);
}

Axis x_axis(const Chart& chart, double width) {
  Range range;
  for (const Line& line : chart.lines) {
    for (const Point& point : line.points) {
      if (usable(point.x) && usable(point.y)) range.add(point.x);
    }
  }
  Axis axis;
  axis.low = range.empty ? 0 : std::min(range.low, chart.x_least);
  axis.high = range.empty ? 1 : range.high;
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  axis.from = kLeft;
  axis.to = width - kRight;
  for (const double tick : nice_ticks(axis.low, axis.high, 6)) {
    // Steps and epochs are whole numbers.
    if (tick >= axis.low && tick <= axis.high && tick == std::floor(tick)) {
      axis.ticks.push_back(tick);
    }
  }
  return axis;
}

Axis y_axis(const Chart& chart, double height) {
  Range range;
  for (const Line& line : chart.lines) {
    for (const Point& point : line.points) {
      if (usable(point.x) && usable(point.y)) range.add(point.y);
    }
  }
  Axis axis;
  axis.from = height - kBottom;
  axis.to = kTop;
  if (range.empty) return axis;
  axis.log = chart.may_be_log && range.low > kSmallest && range.high / range.low > kLogRatio;
  if (axis.log) {
    axis.low = range.low / 1.15;
    axis.high = range.high * 1.15;
    axis.ticks = log_ticks(axis.low, axis.high);
    return axis;
  }
  double room = 0.04 * (range.high - range.low);
  if (!(room > 1e-12 * std::abs(range.high))) room = std::max(0.05 * std::abs(range.high), 1e-6);
  axis.low = range.low - room;
  axis.high = range.high + room;
  if (range.low >= 0) axis.low = std::max(axis.low, 0.0);  // not below 0 if no value is
  for (const double tick : nice_ticks(axis.low, axis.high, 5)) {
    if (tick >= axis.low && tick <= axis.high) axis.ticks.push_back(tick);
  }
  return axis;
}

std::string grid(const Axis& x, const Axis& y) {
  std::string out;
  const double spacing_y = y.ticks.size() > 1 ? y.ticks[1] - y.ticks[0] : 1;
  for (const double tick : y.ticks) {
    const double at = y.place(tick);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        x.from, at, x.to, at, x.from - 8, at + 4, tick_label(tick, y.log ? tick : spacing_y));
  }
  const double spacing_x = x.ticks.size() > 1 ? x.ticks[1] - x.ticks[0] : 1;
  for (const double tick : x.ticks) {
    const double at = x.place(tick);
    out += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"tick\" x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        at, y.from, y.from + 5, y.from + 19, tick_label(tick, spacing_x));
  }
  out += fmt::format(
      "<line class=\"axis\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x.from,
      y.from, x.to, y.from);
  return out;
}

std::string draw(const Line& line, const Axis& x, const Axis& y) {
  constexpr const char* kLooks[] = {"plain", "faint", "bold"};
  const int color = line.color % kChartColors;
  std::string path, dots;
  bool pen_down = false;
  size_t run = 0;  // number of points since the last gap
  Point last;
  size_t drawn = 0;
  const bool marked = line.look == Line::Look::plain && line.points.size() <= kMostMarked;
  const auto dot = [&](const Point& point) {
    dots += fmt::format(
        "<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"><title>{}: "
        "{}</title></circle>",
        color, x.place(point.x), y.place(point.y), short_number(point.x), short_number(point.y));
  };
  const auto end_run = [&] {
    // A single point between gaps has no line; a dot makes it visible.
    if (run == 1 && !marked) dot(last);
    run = 0;
    pen_down = false;
  };
  for (const Point& point : line.points) {
    if (!usable(point.x) || !usable(point.y)) {
      end_run();
      continue;
    }
    path +=
        fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x.place(point.x), y.place(point.y));
    if (marked) dot(point);
    pen_down = true;
    last = point;
    ++run;
    ++drawn;
  }
  end_run();
  if (drawn == 0) return "";
  return fmt::format("<path class=\"line s{} {}\" d=\"{}\"/>{}\n", color,
                     kLooks[static_cast<int>(line.look)], path, dots);
}

std::string legend(const Chart& chart, double width) {
  std::string out;
  double at = kLeft;
  for (const Line& line : chart.lines) {
    if (line.name.empty()) continue;
    const std::string name = clipped(line.name);
    const double needed = 22 + kCharWidth * static_cast<double>(name.size());
    if (at > kLeft && at + needed > width - kRight) {
      out += fmt::format("<text class=\"legend\" x=\"{:.1f}\" y=\"46\">...</text>", at);
      break;
    }
    out += fmt::format(
        "<rect class=\"f{}{}\" x=\"{:.1f}\" y=\"40\" width=\"14\" height=\"4\" rx=\"2\"/>"
        "<text class=\"legend\" x=\"{:.1f}\" y=\"46\">{}</text>\n",
        line.color % kChartColors, line.look == Line::Look::faint ? " faint" : "", at, at + 19,
        escape_html(name));
    at += needed + 14;
  }
  return out;
}

std::string chart_body(const Chart& chart) {
  const Axis x = x_axis(chart, kChartWidth), y = y_axis(chart, kChartHeight);
  std::string lines;
  for (const Line& line : chart.lines) lines += draw(line, x, y);
  std::string out = fmt::format("<text class=\"title\" x=\"16\" y=\"24\">{}{}</text>\n",
                                escape_html(chart.title), y.log ? " (log scale)" : "");
  out += legend(chart, kChartWidth) + grid(x, y);
  if (lines.empty()) {
    lines = fmt::format(
        "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">no data yet</text>\n",
        (x.from + x.to) / 2, (y.from + y.to) / 2);
  }
  return out + lines +
         fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                     x.to, kChartHeight - 8, escape_html(chart.x_label));
}

}  // namespace

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

std::vector<Point> thinned(const std::vector<Point>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> out;
  for (size_t i = 0; i < most; ++i) out.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return out;
}

std::vector<Point> smoothed(const std::vector<Point>& points, size_t window) {
  std::vector<double> sums{0}, counts{0};
  for (const Point& point : points) {
    sums.push_back(sums.back() + (usable(point.y) ? point.y : 0));
    counts.push_back(counts.back() + (usable(point.y) ? 1 : 0));
  }
  std::vector<Point> out;
  for (size_t i = 0; i < points.size(); ++i) {
    // Near the start, where curves are steep, the window shrinks on both sides. Near the end it
    // loses only the missing neighbours on the right.
    const size_t left = std::min(window / 2, i);
    const size_t right = std::min(left, points.size() - 1 - i);
    const double count = counts[i + right + 1] - counts[i - left];
    // 0 / 0 is NaN, which leaves a gap.
    out.push_back({points[i].x, (sums[i + right + 1] - sums[i - left]) / count});
  }
  return out;
}

std::string_view chart_style() {
  return R"(.chart text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
.chart .title{font-size:15px;font-weight:600;fill:#111827}
.chart .tick{font-size:11.5px;fill:#6b7280}.chart .legend{font-size:12px;fill:#374151}
.chart .grid{stroke:#e5e7eb;stroke-width:1}.chart .axis{stroke:#9ca3af;stroke-width:1}
.chart .line{fill:none;stroke-linejoin:round;stroke-linecap:round}
.chart .plain{stroke-width:2}.chart .bold{stroke-width:2.5}
.chart .line.faint{stroke-width:1;stroke-opacity:.3}.chart rect.faint{fill-opacity:.3}
.chart .s0{stroke:#2563eb}.chart .s1{stroke:#ea580c}.chart .s2{stroke:#059669}.chart .s3{stroke:#9333ea}
.chart .s4{stroke:#db2777}.chart .s5{stroke:#0891b2}.chart .s6{stroke:#ca8a04}.chart .s7{stroke:#64748b}
.chart .f0{fill:#2563eb}.chart .f1{fill:#ea580c}.chart .f2{fill:#059669}.chart .f3{fill:#9333ea}
.chart .f4{fill:#db2777}.chart .f5{fill:#0891b2}.chart .f6{fill:#ca8a04}.chart .f7{fill:#64748b}
@media (prefers-color-scheme:dark){
.chart .title{fill:#f3f4f6}.chart .tick{fill:#9ca3af}.chart .legend{fill:#d1d5db}
.chart .grid{stroke:#2b3544}.chart .axis{stroke:#4b5563}
.chart .s0{stroke:#60a5fa}.chart .s1{stroke:#fb923c}.chart .s2{stroke:#34d399}.chart .s3{stroke:#c084fc}
.chart .s4{stroke:#f472b6}.chart .s5{stroke:#22d3ee}.chart .s6{stroke:#facc15}.chart .s7{stroke:#94a3b8}
.chart .f0{fill:#60a5fa}.chart .f1{fill:#fb923c}.chart .f2{fill:#34d399}.chart .f3{fill:#c084fc}
.chart .f4{fill:#f472b6}.chart .f5{fill:#22d3ee}.chart .f6{fill:#facc15}.chart .f7{fill:#94a3b8}
}
)";
}

std::string chart_svg(const Chart& chart) {
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
      kChartWidth, kChartHeight, escape_html(chart.title), chart_body(chart));
}

std::string chart_file(const std::vector<Chart>& charts) {
  std::string body;
  for (size_t i = 0; i < charts.size(); ++i) {
    body += fmt::format("<g transform=\"translate({} 0)\">\n{}</g>\n", i * kChartWidth,
                        chart_body(charts[i]));
  }
  const size_t width = std::max<size_t>(charts.size(), 1) * kChartWidth;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\">\n<style>\n{2}.chart .paper{{fill:#fff}}\n"
      "@media (prefers-color-scheme:dark){{.chart .paper{{fill:#111827}}}}\n</style>\n"
      "<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n{3}</svg>\n",
      width, kChartHeight, chart_style(), body);
}

}  // namespace bv
