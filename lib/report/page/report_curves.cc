#include "lib/report/page/report_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "lib/report/page/chart.h"
#include "lib/report/page/class_labels.h"
#include "lib/report/page/html.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kMostClassRows = 100;  // of the table
constexpr size_t kMostDots = 1600;      // of all residual charts
constexpr size_t kMostOfChart = 400;    // dots
constexpr size_t kMostCharts = 12;      // of residuals
constexpr size_t kLongestCurve = 24;    // bytes of a class name in a legend
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

std::string figure(double value) {
  return std::isnan(value) ? "<td>&#8211;</td>" : fmt::format("<td>{:.3f}</td>", value);
}

Chart curve_chart(const char* title, const char* x_label,
                  const std::vector<EvalDetails::Curves>& curves,
                  EvalDetails::Points EvalDetails::Curves::*points) {
  Chart chart;
  chart.title = title;
  chart.x_label = x_label;
  chart.x_whole = false;
  chart.y_from_zero = true;
  for (size_t i = 0; i < curves.size(); ++i) {
    if ((curves[i].*points).empty()) continue;
    Line line{clipped_bytes(curves[i].name, kLongestCurve), {}, static_cast<int>(i)};
    line.look = i == 0 ? Line::Look::bold : Line::Look::faint;
    for (const auto& [x, y] : curves[i].*points) line.points.push_back({x, y});
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

// Returns a line that is drawn as dots: a point between gaps has no line.
Line dots(const EvalDetails::Points& points, size_t most) {
  Line line;
  line.color = 1;
  line.look = Line::Look::faint;
  const size_t stride = (points.size() + most - 1) / most;
  for (size_t i = 0; i < points.size(); i += stride) {
    line.points.push_back({points[i].first, points[i].second});
    line.points.push_back({points[i].first, kNothing});
  }
  return line;
}

Chart residual_chart(const EvalDetails::Residuals& residuals, size_t most) {
  Chart chart;
  chart.title = "Error" + (residuals.target.empty() ? "" : " of " + residuals.target);
  chart.x_label = "target";
  const auto [first, last] = std::minmax_element(residuals.points.begin(), residuals.points.end());
  chart.x_least = first->first;
  chart.x_whole = false;
  chart.lines.push_back(dots(residuals.points, most));
  chart.lines.push_back({"no error", {{first->first, 0}, {last->first, 0}}, 0, Line::Look::bold});
  return chart;
}

// Leaves at most kMostClassRows classes in `order`. Returns a line that says which.
std::string leave_out_rows(const EvalDetails& details, std::vector<int64_t>& order) {
  const size_t all = order.size();
  // A class without examples has an F1 of 0, but the model is not bad at it.
  std::erase_if(order, [&](int64_t label) { return details.classes[label].examples == 0; });
  const size_t present = order.size();
  if (present <= kMostClassRows)
    return fmt::format("<p class=\"hint\">The {} of {} classes that have examples.</p>\n", present,
                       all);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return details.classes[a].f1 < details.classes[b].f1;
  });
  order.resize(kMostClassRows);
  return fmt::format(
      "<p class=\"hint\">The {} classes with the lowest F1, of {} that have examples.</p>\n",
      kMostClassRows, present);
}

}  // namespace

std::string render_class_table(const EvalDetails& details) {
  if (details.classes.empty()) return "";
  const ClassLabels names(details);
  std::vector<int64_t> order(details.classes.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::string out = "<h3>Metrics per class</h3>\n";
  if (order.size() > kMostClassRows) out += leave_out_rows(details, order);
  out +=
      "<div class=\"scroll\"><table class=\"pairs\"><thead><tr><th>class</th><th>examples</th>"
      "<th>precision</th><th>recall</th><th>F1</th><th>AP</th><th>AUROC</th></tr></thead><tbody>\n";
  for (const int64_t label : order) {
    const EvalDetails::ClassFigures& one = details.classes[label];
    out += fmt::format("<tr><td>{}</td><td>{}</td>", names(label), one.examples) +
           figure(one.precision) + figure(one.recall) + figure(one.f1) +
           figure(one.average_precision) + figure(one.auroc) + "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string render_curves(const EvalDetails& details) {
  std::string out;
  for (const Chart& chart :
       {curve_chart("ROC", "false positive rate", details.curves, &EvalDetails::Curves::roc),
        curve_chart("Precision over recall", "recall", details.curves,
                    &EvalDetails::Curves::precision_recall)}) {
    if (!chart.lines.empty()) out += chart_svg(chart);
  }
  if (out.empty()) return "";
  return "<h3>Curves</h3>\n<p class=\"hint\">The mean over the classes, and the classes with the "
         "lowest average precision.</p>\n<div class=\"charts\">\n" +
         out + "</div>\n";
}

std::string render_residuals(const EvalDetails& details) {
  std::string out;
  size_t drawn = 0;
  const size_t charts = std::clamp<size_t>(details.residuals.size(), 1, kMostCharts);
  for (const EvalDetails::Residuals& residuals : details.residuals) {
    if (residuals.points.empty() || drawn == kMostCharts) continue;
    out += chart_svg(residual_chart(residuals, std::min(kMostOfChart, kMostDots / charts)));
    ++drawn;
  }
  if (out.empty()) return "";
  return "<h3>Errors</h3>\n<p class=\"hint\">Prediction minus target, in the units of the "
         "labels.</p>\n<div class=\"charts\">\n" +
         out + "</div>\n";
}

}  // namespace bv
