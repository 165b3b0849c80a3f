#include "lib/report/page/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/report/page/chart_axis.h"
#include "lib/report/page/chart_text.h"
#include "lib/report/page/html.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Sizes in px.
constexpr double kMargin = 12, kRight = 20, kBottom = 42;  // around the plot
constexpr double kPlotHeight = 156;
constexpr double kTitleSize = 14, kLegendSize = 12, kLegendRow = 17;
constexpr double kSwatch = 14, kLegendGap = 12;  // the coloured bar before a name; between names
constexpr double kBold = 1.12;                   // relative width of bold text
constexpr double kFileScale = 1.6;               // of a chart in a separate file
constexpr size_t kMostMarked = 60;               // a line with more points is drawn without dots

std::string text_at(std::string_view style, double x, double y, std::string_view anchor,
                    std::string_view text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", style, x, y,
                     anchor == "start" ? "" : fmt::format(" text-anchor=\"{}\"", anchor),
                     escape_html(text));
}

std::string segment(std::string_view style, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                     style, x1, y1, x2, y2);
}

std::string grid(const ChartAxis& x, const ChartAxis& y, double bottom) {
  std::string out;
  for (const ChartTick& tick : y.ticks) {
    out += segment("grid", x.from, tick.at, x.to, tick.at) +
           text_at("tick", x.from - 6, tick.at + 4, "end", tick.label);
  }
  for (const ChartTick& tick : x.ticks) {
    out += segment("axis", tick.at, bottom, tick.at, bottom + 5) +
           text_at("tick", tick.at, bottom + 18, "middle", tick.label);
  }
  return out + segment("axis", x.from, bottom, x.to, bottom) + "\n";
}

std::string draw(const Line& line, const ChartAxis& x, const ChartAxis& y) {
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
    if (!can_be_drawn(point.x) || !can_be_drawn(point.y)) {
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

// Returns a ring around the best point of the line, if it has one.
std::string best_mark(const Line& line, const ChartAxis& x, const ChartAxis& y) {
  if (!line.best || !can_be_drawn(line.best->y)) return "";
  return fmt::format(
      "<circle class=\"best s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\"><title>best: {} at "
      "{}</title></circle>\n",
      line.color % kChartColors, x.place(line.best->x), y.place(line.best->y),
      short_number(line.best->y), short_number(line.best->x));
}

// The line names, in as many rows as necessary.
struct Legend {
  std::string svg;
  double bottom = 0;  // the base line of the last row
};

Legend legend(const Chart& chart, size_t hidden, double top) {
  Legend out{"", top};
  double at = kMargin;
  const auto add = [&](const Line* line, const std::string& name) {
    const double swatch = line ? kSwatch + 5 : 0;
    const double width = swatch + text_width(name, kLegendSize);
    if (at > kMargin && at + width > kChartWidth - kMargin) {
      at = kMargin;
      out.bottom += kLegendRow;
    }
    if (line) {
      out.svg += fmt::format(
          "<rect class=\"f{}{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"4\" rx=\"2\"/>",
          line->color % kChartColors, line->look == Line::Look::faint ? " faint" : "", at,
          out.bottom - 6, kSwatch);
    }
    out.svg += text_at("legend", at + swatch, out.bottom, "start", name);
    at += width + kLegendGap;
  };
  for (const Line& line : chart.lines) {
    if (line.name.empty()) continue;
    const std::string best = line.best ? fmt::format(" (best {})", short_number(line.best->y)) : "";
    const double room = kChartWidth - 2 * kMargin - kSwatch - 5 - text_width(best, kLegendSize);
    add(&line, clipped_text(line.name, kLegendSize, room) + best);
  }
  if (hidden > 0) add(nullptr, fmt::format("and {} more lines, not drawn", hidden));
  return out;
}

struct Drawing {
  std::string svg;
  double height = 0;
};

// `hidden` is the number of lines that are not in `chart`.
Drawing draw_lines(const Chart& chart, size_t hidden) {
  double base = 22;  // the base line of the last text above the plot
  ChartAxis y = chart_y_axis(chart, kPlotHeight, 0);
  const std::string scale = y.scale == ChartAxis::Scale::log ? " (log scale)" : "";
  const double room = kChartWidth - 2 * kMargin - text_width(scale, kTitleSize);
  std::string out = text_at("title", kMargin, base, "start",
                            clipped_text(chart.title, kTitleSize * kBold, room) + scale);
  if (y.scale == ChartAxis::Scale::error) {
    base += kLegendRow;
    const std::string name =
        clipped_text(chart.title, kChartTickSize, kChartWidth - 2 * kMargin - 170);
    out += text_at("tick", kMargin, base, "start", "error: 1 - " + name + ", log scale");
  }
  const Legend names = legend(chart, hidden, base + kLegendRow + 2);
  const double top = names.bottom + 16, bottom = top + kPlotHeight;
  y = chart_y_axis(chart, bottom, top);
  double widest = 16;
  for (const ChartTick& tick : y.ticks) {
    widest = std::max(widest, text_width(tick.label, kChartTickSize));
  }
  const ChartAxis x = chart_x_axis(chart, kMargin + widest, kChartWidth - kRight);
  out += names.svg + grid(x, y, bottom);
  std::string lines;
  for (const Line& line : chart.lines) lines += draw(line, x, y);
  for (const Line& line : chart.lines) lines += best_mark(line, x, y);
  if (lines.empty()) {
    lines = text_at("tick", (x.from + x.to) / 2, (top + bottom) / 2, "middle", "no data yet");
  }
  const double height = bottom + kBottom;
  const double label = text_width(chart.x_label, kChartTickSize);
  const std::string note = clipped_text(chart.note, kChartTickSize, x.to - label - 2 * kMargin);
  if (!note.empty()) lines += text_at("tick", kMargin, height - 8, "start", note);
  return {out + lines + text_at("tick", x.to, height - 8, "end", chart.x_label), height};
}

Drawing draw_chart(const Chart& chart) {
  if (chart.lines.size() <= chart.most_lines) return draw_lines(chart, 0);
  Chart shown = chart;
  shown.lines.resize(chart.most_lines);
  return draw_lines(shown, chart.lines.size() - chart.most_lines);
}

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> out;
  for (size_t i = 0; i < most; ++i) out.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return out;
}

std::vector<Point> smoothed(const std::vector<Point>& points, size_t window) {
  std::vector<double> sums{0}, counts{0};
  for (const Point& point : points) {
    sums.push_back(sums.back() + (can_be_drawn(point.y) ? point.y : 0));
    counts.push_back(counts.back() + (can_be_drawn(point.y) ? 1 : 0));
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

size_t smoothing_window(size_t points) {
  constexpr size_t kFewPoints = 60, kParts = 40;
  return points <= kFewPoints ? 1 : std::max<size_t>(points / kParts, 3);
}

std::string_view chart_style() {
  return R"(.chart text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
.chart .title{font-size:14px;font-weight:600;fill:#111827}
.chart .tick{font-size:11.5px;fill:#6b7280}.chart .legend{font-size:12px;fill:#374151}
.chart .grid{stroke:#e5e7eb;stroke-width:1}.chart .axis{stroke:#9ca3af;stroke-width:1}
.chart .line{fill:none;stroke-linejoin:round;stroke-linecap:round}
.chart .plain{stroke-width:2}.chart .bold{stroke-width:2.5}
.chart .line.faint{stroke-width:1;stroke-opacity:.3}.chart rect.faint{fill-opacity:.3}
.chart .best{fill:none;stroke-width:1.6}
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
  const Drawing drawing = draw_chart(chart);
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
      kChartWidth, drawing.height, escape_html(clipped_bytes(chart.title, 200)), drawing.svg);
}

std::string chart_file(const std::vector<Chart>& charts) {
  std::string body;
  double height = kChartHeight;
  for (size_t i = 0; i < charts.size(); ++i) {
    const Drawing drawing = draw_chart(charts[i]);
    height = std::max(height, drawing.height);
    body +=
        fmt::format("<g transform=\"translate({} 0)\">\n{}</g>\n", i * kChartWidth, drawing.svg);
  }
  const size_t width = std::max<size_t>(charts.size(), 1) * kChartWidth;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{:.0f}\" "
      "height=\"{:.0f}\" "
      "viewBox=\"0 0 {} {:.0f}\">\n<style>\n{}.chart .paper{{fill:#fff}}\n"
      "@media (prefers-color-scheme:dark){{.chart .paper{{fill:#111827}}}}\n</style>\n"
      "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
      kFileScale * static_cast<double>(width), kFileScale * height, width, height, chart_style(),
      body);
}

}  // namespace bv
