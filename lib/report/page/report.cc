#include "lib/report/page/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lib/report/page/chart.h"
#include "lib/report/page/html.h"
#include "lib/report/page/report_charts.h"
#include "lib/report/page/report_evals.h"
#include "lib/report/page/report_images.h"
#include "lib/report/page/report_run.h"
#include "lib/report/page/report_skipped.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Bytes. Together with the other parts, which have their own bounds, a page stays below 2 MB.
constexpr size_t kRoomForCharts = 500'000, kRoomForDetails = 700'000, kRoomForConfig = 60'000;
constexpr size_t kLeastForDetails = 40'000;  // an evaluator gets at least this, or no section
constexpr size_t kLongestTitle = 300;

// Adds charts until there is no room for more.
class Panels {
 public:
  std::string operator()(const std::vector<Chart>& charts) {
    std::string out = "<div class=\"charts\">\n";
    size_t left_out = 0;
    for (const Chart& chart : charts) {
      const std::string svg = left_out == 0 ? chart_svg(chart) : "";
      if (left_out > 0 || svg.size() > room_) {
        ++left_out;
        continue;
      }
      room_ -= svg.size();
      out += "<div class=\"panel\">" + svg + "</div>\n";
    }
    out += "</div>\n";
    if (left_out == 0) return out;
    return out + fmt::format(
                     "<p class=\"hint\">{} more charts would make this page too large; "
                     "TensorBoard shows all metrics.</p>\n",
                     left_out);
  }

 private:
  size_t room_ = kRoomForCharts;
};

std::string all_details(const Report& report) {
  const size_t shown = std::min(report.details.size(), kRoomForDetails / kLeastForDetails);
  std::string out;
  size_t count = 0;
  for (const auto& [name, details] : report.details) {
    if (count++ < shown) out += render_details(details, kRoomForDetails / shown);
  }
  if (count > shown) {
    out += fmt::format("<p class=\"hint\">The details of {} more evaluators are left out.</p>\n",
                       count - shown);
  }
  return out;
}

std::string config_section(const std::string& yaml) {
  if (yaml.empty()) return "";
  std::string out = "<section><h2>Config</h2>\n<pre>" +
                    escape_html(clipped_bytes(yaml, kRoomForConfig)) + "</pre>";
  if (yaml.size() > kRoomForConfig) {
    out += "\n<p class=\"hint\">The whole config is in config.yaml.</p>\n";
  }
  return out + "</section>\n";
}

}  // namespace

std::string render_report(const Report& report) {
  const History empty;
  const History& history = report.history != nullptr ? *report.history : empty;
  std::string out =
      page_start(clipped_bytes(report.title, kLongestTitle), "", run_progress(history));
  out += render_cards(report.earlier, history);

  Panels panels;
  // The charts of the training are few. They get their room before those of the metrics, which may
  // be hundreds.
  const std::vector<Chart> training = training_charts(history);
  const std::string optimisation = training.empty() ? "" : panels(training);
  std::vector<Chart> curves{loss_chart(history)};
  if (report.steps_per_epoch > 0) {
    curves.push_back(epoch_loss_chart(history, report.steps_per_epoch));
  }
  for (Chart& chart : metric_charts(history)) curves.push_back(std::move(chart));
  out += "<section><h2>Learning curves</h2>\n" + panels(curves) + "</section>\n";
  out += render_metrics(history);
  out += all_details(report);
  out += render_images(report.images);
  out += render_skipped(report.skipped);
  if (!optimisation.empty())
    out += "<section><h2>Optimization</h2>\n" + optimisation + "</section>\n";
  out += render_facts(report, history) + config_section(report.config_yaml);
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace bv
