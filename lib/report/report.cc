#include "lib/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/config/duration.h"
#include "lib/report/chart.h"
#include "lib/report/html.h"
#include "lib/report/report_charts.h"
#include "lib/report/report_evals.h"
#include "lib/report/report_skipped.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::string_view kPageStyle = R"(
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#111827;--soft:#6b7280;--edge:#e5e7eb;
--right:37,99,235;--wrong:234,88,12;--bar:#2563eb;--strong:#fff}
@media (prefers-color-scheme:dark){:root{--paper:#0b1120;--card:#111827;--ink:#f3f4f6;--soft:#9ca3af;
--edge:#263041;--right:59,130,246;--wrong:249,115,22;--bar:#60a5fa}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.5;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1320px;margin:0 auto;padding:40px 28px 64px}
h1{font-size:28px;line-height:1.2;margin:0;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{font-size:20px;margin:44px 0 14px;letter-spacing:-.01em}
h2 small,.hint,header p{color:var(--soft);font-weight:400}
h2 small{font-size:15px}h3{font-size:15px;margin:26px 0 8px}.hint{margin:0 0 10px;font-size:14px}
header p{margin:6px 0 0}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(178px,1fr));gap:14px;margin-top:26px}
.card,.panel,table,.bars,pre{background:var(--card);border:1px solid var(--edge);border-radius:12px}
.card{padding:14px 16px}
.card .label{font-size:13px;color:var(--soft);overflow-wrap:anywhere}
.card .value{font-size:26px;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.card .note{font-size:12.5px;color:var(--soft)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:16px}
.panel{padding:8px}.panel svg{display:block;width:100%;height:auto;max-width:760px;margin:0 auto}
.scroll{overflow-x:auto}.beside{display:flex;flex-wrap:wrap;gap:0 32px}
.beside>div{max-width:100%}.beside>.wide{flex:1 1 420px}
table{border-collapse:separate;border-spacing:2px;padding:12px;font-size:13px;
font-variant-numeric:tabular-nums}
th{font-weight:500;color:var(--soft);text-align:right;padding:2px 8px;max-width:180px;
overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
th.guess{padding:2px 0;text-align:center;vertical-align:bottom}
th.guess span{writing-mode:vertical-rl;transform:rotate(180deg);max-height:130px;overflow:hidden}
.confusion td{min-width:38px;height:30px;text-align:center;border-radius:5px;background:var(--paper)}
.confusion td.right{background:rgba(var(--right),var(--a))}
.confusion td.wrong{background:rgba(var(--wrong),var(--a))}
.confusion td.strong{color:var(--strong)}
.pairs td,.pairs th{padding:3px 14px;text-align:left}
.bars{display:grid;grid-template-columns:minmax(60px,max-content) 1fr max-content;gap:7px 14px;
padding:16px;align-items:center;font-size:13.5px;max-width:860px}
.bars .name{max-width:240px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-align:right}
.track{display:block;background:var(--paper);border-radius:5px;height:14px;overflow:hidden}
.bar{display:block;height:100%;background:var(--bar);border-radius:5px}
.value{font-variant-numeric:tabular-nums}small{color:var(--soft)}
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(120px,1fr));gap:14px}
figure{margin:0;background:var(--card);border:1px solid var(--edge);border-radius:12px;padding:10px;
text-align:center;font-size:13px;overflow-wrap:anywhere}
figure img{width:96px;height:96px;object-fit:contain;image-rendering:pixelated;border-radius:6px}
figcaption small{display:block}
pre{padding:16px;overflow-x:auto;font-size:12.5px;line-height:1.45;
font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
)";

const Points* find(const History& history, const std::string& name) {
  const auto found = history.series.find(name);
  return found == history.series.end() || found->second.empty() ? nullptr : &found->second;
}

std::string card(const std::string& label, const std::string& value, const std::string& note) {
  return fmt::format(
      "<div class=\"card\"><div class=\"label\">{}</div><div class=\"value\">{}</div>"
      "<div class=\"note\">{}</div></div>\n",
      escape_html(label), escape_html(value), escape_html(note));
}

// Returns the sum of the last `uptime` of each process of the run. The metric starts again at 0
// with every process.
double wall_seconds(const Points& uptime) {
  double before = 0, last = 0;
  for (const auto& [step, seconds] : uptime) {
    if (seconds < last) before += last;
    last = seconds;
  }
  return before + last;
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
  const auto summary = history.summaries.find(metric.name);
  if (summary != history.summaries.end() && summary->second.has_extremes) {
    const auto& [best_step, best] =
        metric.lower_is_better() ? summary->second.min : summary->second.max;
    note = fmt::format("best {} at step {}", short_number(best), human_count(best_step));
  }
  return card(metric.name, short_number(value), note);
}

std::string cards(const History& history) {
  std::string out;
  for (const EvalMetric& metric : eval_metrics(history)) out += eval_card(history, metric);
  if (const Points* loss = find(history, "training_loss")) {
    out += card("training_loss", short_number(loss->back().second),
                fmt::format("at step {}", human_count(loss->back().first)));
  }
  if (const Points* speed = find(history, "img/sec/core")) {
    out +=
        card("Images per second", human_count(std::llround(median(*speed))), "per device, median");
  }
  if (const Points* uptime = find(history, "uptime")) {
    out +=
        card("Wall time", duration_text(wall_seconds(*uptime)), "sum over all starts of the run");
  }
  if (const Points* count = find(history, "num_params")) {
    out += card("Parameters", human_count(std::llround(count->back().second)), "");
  }
  return out.empty() ? out : "<div class=\"cards\">\n" + out + "</div>\n";
}

std::string subtitle(const History& history) {
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

std::string panels(const std::vector<Chart>& charts) {
  std::string out = "<div class=\"charts\">\n";
  for (const Chart& chart : charts) {
    out += "<div class=\"panel\">" + chart_svg(chart) + "</div>\n";
  }
  return out + "</div>\n";
}

}  // namespace

std::string render_report(const Report& report) {
  const History empty;
  const History& history = report.history != nullptr ? *report.history : empty;
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}{2}</style>\n</head>\n<body>\n<main>\n"
      "<header><h1>{0}</h1><p>{3}</p></header>\n",
      escape_html(report.title), kPageStyle, chart_style(), subtitle(history));
  out += cards(history);

  std::vector<Chart> curves{loss_chart(history)};
  if (report.steps_per_epoch > 0) {
    curves.push_back(epoch_loss_chart(history, report.steps_per_epoch));
  }
  for (Chart& chart : metric_charts(history)) curves.push_back(std::move(chart));
  out += "<section><h2>Learning curves</h2>\n" + panels(curves) + "</section>\n";
  for (const auto& [name, details] : report.details) out += render_details(details);
  out += render_skipped(report.skipped);
  if (const std::vector<Chart> charts = training_charts(history); !charts.empty()) {
    out += "<section><h2>Optimisation</h2>\n" + panels(charts) + "</section>\n";
  }
  if (!report.config_yaml.empty()) {
    out +=
        "<section><h2>Config</h2>\n<pre>" + escape_html(report.config_yaml) + "</pre></section>\n";
  }
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace bv
