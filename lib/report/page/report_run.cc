#include "lib/report/page/report_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/config/duration.h"
#include "lib/report/live_line.h"
#include "lib/report/page/html.h"
#include "lib/report/page/report_charts.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kMostCards = 8, kMostMetricRows = 200;  // of evaluators' metrics
constexpr size_t kLongestLabel = 120, kLongestFact = 4000, kRoomForFacts = 100'000;

const Points* find(const History& history, const std::string& name) {
  const auto found = history.series.find(name);
  return found == history.series.end() || found->second.empty() ? nullptr : &found->second;
}

// Five significant digits, which distinguish 0.99224 from 0.9922.
std::string precise(double value) {
  return std::abs(value) >= 1e6 ? short_number(value) : fmt::format("{:.5g}", value);
}

std::string card(const std::string& label, const std::string& value, const std::string& note) {
  return fmt::format(
      "<div class=\"card\"><div class=\"label\">{}</div><div class=\"value\">{}</div>"
      "<div class=\"note\">{}</div></div>\n",
      escape_html(clipped_bytes(label, kLongestLabel)), escape_html(value), escape_html(note));
}

// Returns the wall time of all starts of the run. `uptime` begins at 0 in every start. Falling
// values do not show where a start begins, because a start may take longer than the one before it.
double wall_seconds(const EarlierTime& earlier, const Points& uptime) {
  const auto& [step, seconds] = uptime.back();
  return earlier.seconds + (step > earlier.last_step ? seconds : 0);
}

double median(const Points& points) {
  std::vector<double> values;
  for (const auto& [step, value] : points) {
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string eval_card(const History& history, const EvalMetric& metric) {
  const auto& [step, value] = history.series.at(metric.name).back();
  std::string note = fmt::format("at step {}", human_count(step));
  if (const auto* best = best_of(history, metric.name)) {
    note = fmt::format("best {} at step {}", short_number(best->second), human_count(best->first));
  }
  return card(metric.name, short_number(value), note);
}

// Returns a row of the table of metrics. A last value that is also the best is marked.
std::string metric_row(const History& history, const std::string& name) {
  const auto& [step, value] = history.series.at(name).back();
  const auto* best = best_of(history, name);
  const bool is_best = best != nullptr && best->second == value;
  return fmt::format(
      "<tr><th>{}</th><td{}>{}</td><td class=\"best\">{}</td><td>{}</td><td>{}</td></tr>\n",
      escape_html(clipped_bytes(name, kLongestLabel)), is_best ? " class=\"best\"" : "",
      precise(value), best ? precise(best->second) : "", best ? human_count(best->first) : "",
      human_count(step));
}

// Returns the mean and the last fraction of time that training waited for data.
std::string data_wait(const Points& points) {
  double sum = 0;
  for (const auto& [step, share] : points) sum += share;
  return fmt::format(
      "{:.1f} % of the training time (mean of the logged steps); {:.1f} % at the end",
      100 * sum / static_cast<double>(points.size()), 100 * points.back().second);
}

}  // namespace

std::string run_progress(const History& history) {
  int64_t last = -1;
  for (const auto& [name, points] : history.series) {
    if (!points.empty()) last = std::max(last, points.back().first);
  }
  if (last < 0) return "No measurements yet.";
  std::string out = fmt::format("Step {}", human_count(last));
  if (const Points* epoch = find(history, "epoch")) {
    out += fmt::format(", epoch {:.4g}", epoch->back().second);
  }
  if (const Points* progress = find(history, "progress")) {
    out += fmt::format(", {:.0f} % of the run", 100 * progress->back().second);
  }
  return out;
}

std::string render_cards(const EarlierTime& earlier, const History& history) {
  std::string out;
  size_t count = 0;
  for (const EvalMetric& metric : eval_metrics(history)) {
    if (count++ < kMostCards) out += eval_card(history, metric);
  }
  if (const Points* loss = find(history, "training_loss")) {
    out += card("training_loss", short_number(loss->back().second),
                fmt::format("at step {}", human_count(loss->back().first)));
  }
  if (const Points* speed = find(history, "img/sec/core")) {
    out += card("Images per second", speed_number(median(*speed)), "per device, median");
  }
  if (const Points* uptime = find(history, "uptime")) {
    out += card("Wall time", duration_text(wall_seconds(earlier, *uptime)),
                "sum over all starts of the run");
  }
  if (const Points* count_of = find(history, "num_params")) {
    out += card("Parameters", human_count(std::llround(count_of->back().second)), "");
  }
  return out.empty() ? out : "<div class=\"cards\">\n" + out + "</div>\n";
}

std::string render_metrics(const History& history) {
  std::string rows;
  size_t count = 0;
  for (const EvalMetric& metric : eval_metrics(history)) {
    if (count++ < kMostMetricRows) rows += metric_row(history, metric.name);
  }
  if (find(history, "training_loss") != nullptr) rows += metric_row(history, "training_loss");
  if (rows.empty()) return rows;
  std::string out =
      "<section><h2>Metrics</h2>\n<div class=\"scroll\"><table class=\"metrics\"><thead><tr>"
      "<th>metric</th><th>last</th><th>best</th><th>at step</th><th>last step</th></tr></thead>"
      "<tbody>\n" +
      rows + "</tbody></table></div>\n";
  if (count > kMostMetricRows) {
    out += fmt::format("<p class=\"hint\">{} more metrics are in metrics.jsonl.</p>\n",
                       human_count(static_cast<int64_t>(count - kMostMetricRows)));
  }
  return out + "</section>\n";
}

std::string render_facts(const Report& report, const History& history) {
  Facts facts = report.facts;
  if (const Points* uptime = find(history, "uptime")) {
    facts.emplace_back("Wall time", duration_text(wall_seconds(report.earlier, *uptime)) +
                                        ", sum over all starts");
  }
  if (const Points* waits = find(history, "data_wait")) {
    facts.emplace_back("Waiting for data", data_wait(*waits));
  }
  facts.insert(facts.end(), report.notes.begin(), report.notes.end());
  if (facts.empty()) return "";
  std::string out = "<section><h2>Run</h2>\n<dl class=\"facts\">\n";
  for (const auto& [label, text] : facts) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_html(clipped_bytes(label, kLongestLabel)),
                       escape_html(clipped_bytes(text, kLongestFact)));
    if (out.size() > kRoomForFacts) break;
  }
  return out + "</dl></section>\n";
}

}  // namespace bv
