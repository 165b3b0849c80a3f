#include "lib/compare/comparison_page.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "lib/compare/comparison_text.h"
#include "lib/compare/config_columns.h"
#include "lib/report/page/chart.h"
#include "lib/report/page/html.h"
#include "lib/report/page/report.h"
#include "lib/report/page/report_charts.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Each of the best groups has its own colour. The others share the last colour, which is grey.
constexpr size_t kColoredGroups = kChartColors - 1;
constexpr size_t kMostPointsInChart = 4000, kFewestPointsInLine = 40, kMostPointsInLine = 400;
constexpr size_t kRoomForMetricCharts = 10'000'000;  // bytes
constexpr size_t kLongestInTable = 60, kLongestInLegend = 20;

// CSS rules in addition to those of the report.
constexpr std::string_view kCompareStyle = R"(
main{padding-left:max(12px,min(28px,3vw));padding-right:max(12px,min(28px,3vw))}
.runs{width:max-content;min-width:100%;font-size:13.5px}
.runs td,.runs th{padding:4px 10px;white-space:nowrap;text-align:left;max-width:none}
.runs td.number,.runs th.number{text-align:right}
.runs .group td{font-weight:600;border-top:1px solid var(--edge)}
.runs svg{display:inline-block;width:12px;height:12px;vertical-align:-1px}
.runs .open{color:var(--soft)}
ul{padding-left:20px}li{overflow-wrap:anywhere}
)";

int color_of(size_t group) { return static_cast<int>(std::min(group, kColoredGroups)); }

std::vector<Point> curve(const RunRecord& run, const std::string& metric) {
  std::vector<Point> points;
  const auto found = run.metrics.series.find(metric);
  if (found == run.metrics.series.end()) return points;
  for (const auto& [step, value] : found->second.points)
    points.push_back({static_cast<double>(step), value});
  const size_t window = smoothing_window(points.size());
  return window == 1 ? points : smoothed(points, window);
}

// Returns the value of a curve at a step between its first and its last one.
double value_at(const std::vector<Point>& curve, double step) {
  const auto after =
      std::lower_bound(curve.begin(), curve.end(), step,
                       [](const Point& point, double wanted) { return point.x < wanted; });
  if (after->x == step) return after->y;
  const auto before = std::prev(after);
  return std::lerp(before->y, after->y, (step - before->x) / (after->x - before->x));
}

// Returns the mean curve over the steps that all curves cover. Runs may measure at different steps,
// for example with log_seconds, so curves are interpolated linearly between their steps. `curves`
// is not empty, and neither is any curve.
std::vector<Point> mean_curve(const std::vector<std::vector<Point>>& curves) {
  std::set<double> steps;
  double first = 0, last = INFINITY;
  for (const auto& points : curves) {
    for (const Point& point : points) steps.insert(point.x);
    first = std::max(first, points.front().x);
    last = std::min(last, points.back().x);
  }
  std::vector<Point> out;
  for (auto step = steps.lower_bound(first); step != steps.end() && *step <= last; ++step) {
    double sum = 0;
    for (const auto& points : curves) sum += value_at(points, *step);
    out.push_back({*step, sum / static_cast<double>(curves.size())});
  }
  return out;
}

// Lines of diverged runs can be so high that the other lines would be flat on the axis. Cuts such
// lines off. Returns the value above which nothing is drawn; nullopt if no line is cut.
std::optional<double> cut_outliers(std::vector<Line>& lines) {
  constexpr double kFar = 1e4, kRoom = 10;  // times the largest value of an ordinary line
  std::vector<double> largest;              // by line
  for (const Line& line : lines) {
    double most = -INFINITY;
    for (const Point& point : line.points) {
      if (!std::isnan(point.y)) most = std::max(most, point.y);
    }
    largest.push_back(most);
  }
  std::erase(largest, -INFINITY);
  if (largest.empty()) return std::nullopt;
  std::sort(largest.begin(), largest.end());
  const double ordinary = largest[(largest.size() - 1) / 4];  // the lower quartile
  if (!(ordinary > 0) || largest.back() <= kFar * ordinary) return std::nullopt;
  const double most = kRoom * ordinary;
  for (Line& line : lines) {
    for (Point& point : line.points) point.y = std::min(point.y, most);  // NaN stays
  }
  return most;
}

std::string legend_name(const std::vector<ConfigColumn>& columns, size_t group) {
  const std::string label = group_label(columns, group);
  if (!label.empty() && label.size() <= kLongestInLegend) return label;
  return fmt::format("#{}", group + 1);
}

// The best group is drawn last, on top of the others.
Chart metric_chart(const Comparison& all, const std::vector<ConfigColumn>& columns,
                   const std::string& metric) {
  Chart chart;
  chart.title = metric;
  chart.x_label = "step";
  chart.may_be_log = lower_is_better(metric);
  const size_t most =
      std::clamp(kMostPointsInChart / all.runs.size(), kFewestPointsInLine, kMostPointsInLine);
  std::vector<Line> lines;
  for (size_t i = all.groups.size(); i-- > 0;) {
    const RunGroup& group = all.groups[i];
    const bool several = group.runs.size() > 1, coloured = i < kColoredGroups;
    std::vector<std::vector<Point>> counted;  // the runs in the mean of the table
    for (const size_t run : group.runs) {
      std::vector<Point> points = curve(all.runs[run], metric);
      if (points.empty()) continue;
      const bool faint = several || !coloured;
      lines.push_back({faint ? "" : legend_name(columns, i), thinned(points, most), color_of(i),
                       faint ? Line::Look::faint : Line::Look::bold});
      if (group.provisional || all.runs[run].status.finished())
        counted.push_back(std::move(points));
    }
    if (several && coloured && !counted.empty()) {
      lines.push_back({legend_name(columns, i), thinned(mean_curve(counted), most), color_of(i),
                       Line::Look::bold});
    }
  }
  if (chart.may_be_log) {
    if (const auto most = cut_outliers(lines))
      chart.note = "values above " + short_number(*most) + " are at the upper edge";
  }
  // The legend lists the lines in drawing order, so it would begin with the worst group.
  std::vector<Line> names;
  for (Line& line : lines) {
    if (line.name.empty()) continue;
    names.insert(names.begin(), {std::move(line.name), {}, line.color, line.look});
    line.name.clear();
  }
  chart.lines = std::move(names);
  for (Line& line : lines) chart.lines.push_back(std::move(line));
  return chart;
}

// Returns the metrics that have a chart: the table's, the evaluators' and the training loss.
std::vector<std::string> charted_metrics(const Comparison& all) {
  std::vector<std::string> names;
  std::set<std::string> added;
  History known;  // eval_metrics() uses only the names
  for (const RunRecord& run : all.runs) {
    for (const auto& [name, series] : run.metrics.series) known.series[name];
  }
  const auto add = [&](const std::string& name) {
    if (known.series.contains(name) && added.insert(name).second) names.push_back(name);
  };
  for (const ComparedMetric& metric : all.metrics) add(metric.name);
  add("training_loss");
  for (const EvalMetric& metric : eval_metrics(known)) add(metric.name);
  return names;
}

std::string charts(const Comparison& all, const std::vector<ConfigColumn>& columns) {
  std::string out;
  size_t left_out = 0;
  for (const std::string& metric : charted_metrics(all)) {
    const std::string svg = left_out == 0 ? chart_svg(metric_chart(all, columns, metric)) : "";
    if (left_out > 0 || out.size() + svg.size() > kRoomForMetricCharts)
      ++left_out;
    else
      out += "<div class=\"panel\">" + svg + "</div>\n";
  }
  if (out.empty()) return "<p>Nothing has been measured yet.</p>\n";
  std::string hint = "Long curves are smoothed. ";
  if (all.groups.size() < all.runs.size())
    hint +=
        "Each thin line is a run. Each thick line is a group: its only run, the mean of its "
        "finished runs, or the mean of all its runs if none has finished. ";
  if (all.groups.size() > kColoredGroups)
    hint += fmt::format("The best {} groups have colours, the others are grey. ", kColoredGroups);
  if (left_out > 0)
    hint += fmt::format("{} more charts would make this page too large. ", left_out);
  return "<p class=\"hint\">" + hint + "</p>\n<div class=\"charts\">\n" + out + "</div>\n";
}

std::string cell(const std::string& text, const char* style = "") {
  return fmt::format("<td{}>{}</td>", style, escape_html(text));
}
constexpr const char* kNumber = " class=\"number\"";
constexpr const char* kOpen = " class=\"open\"";  // of a run that has not finished
constexpr const char* kOpenNumber = " class=\"number open\"";

std::string swatch(size_t group) {
  return fmt::format(
      "<td class=\"number\">{} <svg class=\"chart\" viewBox=\"0 0 12 12\" "
      "aria-hidden=\"true\"><rect "
      "class=\"f{}\" width=\"12\" height=\"12\" rx=\"3\"/></svg></td>",
      group + 1, color_of(group));
}

std::string config_cells(const std::vector<ConfigColumn>& columns, std::optional<size_t> group) {
  std::string out;
  for (const ConfigColumn& column : columns)
    out += cell(group ? column.texts[*group] : "", kNumber);
  return out;
}

// The results come before the config, so that they are visible on a narrow screen. `left` holds the
// cells to the left of the results, `config` the config cells.
std::string run_row(const Comparison& all, size_t index, const std::string& left,
                    const std::string& config) {
  const RunRecord& run = all.runs[index];
  const bool finished = run.status.finished();
  std::string out = "<tr>" + left;
  for (size_t metric = 0; metric < all.metrics.size(); ++metric) {
    const auto* value = all.value_of(index, metric);
    out += cell(value == nullptr ? "-" : short_number(value->second) + (finished ? "" : "*"),
                finished ? kNumber : kOpenNumber);
  }
  return out + cell("") + cell(run.status.text(), finished ? "" : kOpen) + config +
         cell(value_text(run.seed), kNumber) +
         (all.has_folds() ? cell(fold_text(run), kNumber) : "") + cell(run.name) + "</tr>\n";
}

std::string group_rows(const Comparison& all, const std::vector<ConfigColumn>& columns, size_t i) {
  const RunGroup& group = all.groups[i];
  const std::string config = config_cells(columns, i);
  if (group.runs.size() == 1) return run_row(all, group.runs[0], swatch(i), config);
  std::string out = "<tr class=\"group\">" + swatch(i);
  for (const Spread& spread : group.spreads) {
    std::string text = spread.n > 0 ? short_number(spread.mean) : "-";
    if (spread.n > 1) text += " ± " + short_number(spread.deviation);
    if (spread.n != group.spreads[0].n) text += fmt::format(" (n = {})", spread.n);
    if (spread.n > 0 && group.provisional) text += "*";
    out += cell(text, group.provisional ? kOpenNumber : kNumber);
  }
  const std::string n = group.spreads.empty() ? "" : fmt::format("{}", group.spreads[0].n);
  out += cell(n, kNumber) + cell(group_status(all, group)) + config + cell("") +
         (all.has_folds() ? cell("") : "") + cell("") + "</tr>\n";
  const std::string no_config = config_cells(columns, std::nullopt);
  for (const size_t run : group.runs) out += run_row(all, run, cell(""), no_config);
  return out;
}

std::string table(const Comparison& all, const std::vector<ConfigColumn>& columns) {
  std::string out = "<div class=\"scroll\"><table class=\"runs\">\n<tr><th class=\"number\">#</th>";
  const auto head = [&](const std::string& name, const char* style) {
    out += fmt::format("<th{}>{}</th>", style, escape_html(name));
  };
  for (size_t metric = 0; metric < all.metrics.size(); ++metric)
    head(metric_heading(all, metric), kNumber);
  head("n", kNumber);
  head("status", "");
  for (const ConfigColumn& column : columns) head(column.key, kNumber);
  head("seed", kNumber);
  if (all.has_folds()) head("fold", kNumber);
  head("run", "");
  out += "</tr>\n";
  for (size_t i = 0; i < all.groups.size(); ++i) out += group_rows(all, columns, i);
  out += "</table></div>\n";
  for (const ConfigColumn& column : columns) {
    for (const auto& [letter, value] : column.legend)
      out += fmt::format("<p class=\"hint\">{} {}</p>\n", letter, escape_html(value));
  }
  return out + "<p class=\"hint\">The runs of a group differ only in the " + repeated_text(all) +
         ". ± is the standard deviation (n - 1) over its n finished runs. * marks an unfinished "
         "run: it does not count in the mean of finished runs.</p>\n";
}

}  // namespace

std::string comparison_page(const Comparison& all) {
  const std::vector<ConfigColumn> columns = config_columns(all, kLongestInTable);
  const std::string title = fmt::format("{} runs", all.runs.size());
  std::string out =
      page_start(title, kCompareStyle,
                 all.metrics.empty() ? "" : "Sorted by " + escape_html(sort_text(all)) + ".");
  out += "<section><h2>Runs</h2>\n" + table(all, columns) + "</section>\n";
  if (!all.warnings.empty()) {
    out += "<section><h2>Warnings</h2>\n<ul>\n";
    for (const std::string& line : all.warnings) out += "<li>" + escape_html(line) + "</li>\n";
    out += "</ul></section>\n";
  }
  out += "<section><h2>Curves</h2>\n" + charts(all, columns) + "</section>\n";
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace bv
