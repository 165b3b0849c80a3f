#include "lib/report/page/report_charts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "lib/report/metric_summary.h"

namespace bv {
namespace {

constexpr size_t kMostPoints = 500;  // in a line; more would be less than 1 px apart
constexpr size_t kMostLines = 12;    // in a chart
constexpr std::string_view kLoss = "training_loss";

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// "global_schedule", "global_schedule1", ...
bool is_schedule(std::string_view name) {
  constexpr std::string_view kSchedule = "global_schedule";
  return starts_with(name, kSchedule) &&
         name.find_first_not_of("0123456789", kSchedule.size()) == std::string_view::npos;
}

// "core_hours" and "core_hours_<device>"
bool is_core_hours(std::string_view name) {
  return name == "core_hours" ||
         (starts_with(name, "core_hours_") && name.find('/') == std::string_view::npos);
}

}  // namespace

// Compares whole names where possible, because an evaluator may be called "y" or "l2_distance".
// All names except data_wait, mfu, memory_gb/sec, steps_per_sec, input/epoch/<data set> and the
// counts of skipped examples and steps are big_vision's (train.py and `Chrono` in utils.py).
bool is_trainers_own(std::string_view name) {
  // input/errors and <prefix>errors. recall@errors is the recall of a class of that name.
  const bool of_class = name.find('@', name.rfind('/') + 1) != std::string_view::npos;
  if (name.ends_with("errors") && !of_class) return true;
  for (const std::string_view own :
       {"training_loss", "num_params", "uptime", "examples_seen", "progress", "epoch",
        "img/sec/core", "steps_per_sec", "data_wait", "mfu", "memory_gb/sec", "l2_params",
        "l2_grads", "l2_updates", "skipped_steps", "rollbacks"}) {
    if (name == own) return true;
  }
  if (is_schedule(name) || is_core_hours(name)) return true;
  for (const std::string_view start : {"input/epoch/", "z/secs/", "y/hostmem/"}) {
    if (starts_with(name, start)) return true;
  }
  return false;
}

namespace {

std::vector<Point> points_of(const History& history, std::string_view name) {
  std::vector<Point> points;
  const auto found = history.series.find(std::string(name));
  if (found == history.series.end()) return points;
  for (const auto& [step, value] : found->second) {
    points.push_back({static_cast<double>(step), value});
  }
  return points;
}

// Makes `best` one of the points: thinning may have dropped it.
void keep_point(std::vector<Point>& points, const Point& best) {
  const auto place = std::lower_bound(points.begin(), points.end(), best.x,
                                      [](const Point& point, double x) { return point.x < x; });
  if (place == points.end() || place->x != best.x) points.insert(place, best);
}

Line metric_line(const History& history, const EvalMetric& metric, const std::string& label) {
  Line line{label, thinned(points_of(history, metric.name), kMostPoints), metric.color,
            Line::Look::plain, std::nullopt};
  if (const auto* best = best_of(history, metric.name)) {
    line.best = Point{static_cast<double>(best->first), best->second};
    keep_point(line.points, *line.best);
  }
  return line;
}

// Adds one line; if there are many points, a smoothed line above the faint raw values.
void add_smoothed(Chart& chart, const std::vector<Point>& points, const std::string& label,
                  int color) {
  const size_t window = smoothing_window(points.size());
  if (window == 1) {
    chart.lines.push_back({label, points, color, Line::Look::plain, {}});
    return;
  }
  chart.lines.push_back({"", thinned(points, kMostPoints), color, Line::Look::faint, {}});
  chart.lines.push_back(
      {label, thinned(smoothed(points, window), kMostPoints), color, Line::Look::bold, {}});
}

// Returns how many epochs have passed when `step` begins. `epochs` holds the metric `epoch` of the
// rows. The two rows around the step say how many steps an epoch has there, because the batch size
// may have changed. Where the epoch falls, because a restart has added data, and without any row,
// an epoch has `steps_per_epoch` steps.
double epochs_before(double step, const std::vector<Point>& epochs, double steps_per_epoch) {
  if (epochs.empty()) return (step - 1) / steps_per_epoch;
  auto at = std::lower_bound(epochs.begin(), epochs.end(), step,
                             [](const Point& point, double x) { return point.x < x; });
  if (at == epochs.end()) --at;
  const Point last = at == epochs.begin() ? Point{0, 0} : *std::prev(at);
  if (at->x <= last.x) return (step - 1) / steps_per_epoch;
  const double epochs_per_step =
      at->y > last.y ? (at->y - last.y) / (at->x - last.x) : 1 / steps_per_epoch;
  return at->y - (at->x - (step - 1)) * epochs_per_step;
}

Chart new_chart(std::string title, std::string x_label = "step") {
  Chart chart;
  chart.title = std::move(title);
  chart.x_label = std::move(x_label);
  chart.most_lines = kMostLines;
  return chart;
}

}  // namespace

const std::pair<int64_t, double>* best_of(const History& history, const std::string& name) {
  const Direction direction = metric_direction(name);
  const auto found = history.summaries.find(name);
  if (direction == Direction::none || found == history.summaries.end()) return nullptr;
  if (!found->second.has_extremes) return nullptr;
  return direction == Direction::up ? &found->second.max : &found->second.min;
}

std::vector<EvalMetric> eval_metrics(const History& history) {
  std::vector<EvalMetric> metrics;
  std::vector<std::string> names;
  std::set<std::string> prefixes;
  for (const auto& [name, points] : history.series) {
    if (is_trainers_own(name)) continue;
    const size_t slash = name.rfind('/');
    EvalMetric metric{name, "", name, 0, metric_direction(name)};
    if (slash != std::string::npos) {
      metric.prefix = name.substr(0, slash);
      metric.suffix = name.substr(slash + 1);
    }
    prefixes.insert(metric.prefix);
    metrics.push_back(metric);
    names.push_back(name);
  }
  for (EvalMetric& metric : metrics) {  // colour 0 is for the training loss
    const auto place = std::distance(prefixes.begin(), prefixes.find(metric.prefix));
    metric.color = 1 + static_cast<int>(place) % (kChartColors - 1);
  }
  const std::string main = choose_main_metric(names);
  const std::string_view main_suffix = std::string_view(main).substr(main.rfind('/') + 1);
  const auto rank = [&](const EvalMetric& metric) {
    return std::tuple(metric.suffix != main_suffix, is_of_class(metric.suffix), metric.direction,
                      std::string_view(metric.suffix), metric.name != main);
  };
  std::stable_sort(metrics.begin(), metrics.end(),
                   [&](const EvalMetric& a, const EvalMetric& b) { return rank(a) < rank(b); });
  return metrics;
}

Chart loss_chart(const History& history) {
  Chart chart = new_chart("Loss per step");
  chart.may_be_log = true;
  add_smoothed(chart, points_of(history, kLoss), std::string(kLoss), 0);
  for (const EvalMetric& metric : eval_metrics(history)) {
    if (metric.suffix != "loss") continue;
    chart.lines.push_back(metric_line(history, metric, metric.name));
  }
  return chart;
}

Chart epoch_loss_chart(const History& history, double steps_per_epoch) {
  Chart chart = new_chart("Training loss per epoch", "epoch");
  chart.may_be_log = true;
  Line line{"mean of training_loss", {}, 0, Line::Look::plain, {}};
  const std::vector<Point> epochs = points_of(history, "epoch");
  struct Losses {
    double sum = 0, count = 0;
  };
  std::map<int64_t, Losses> losses;  // by epoch, which falls where a restart has added data
  for (const Point& point : points_of(history, kLoss)) {
    constexpr double kRounding = 1e-9;  // 35 / (7.0 / 3) is less than 15
    const double before = epochs_before(point.x, epochs, steps_per_epoch);
    if (!std::isfinite(point.y) || !(std::abs(before) < 0x1p53)) continue;
    Losses& of_epoch = losses[static_cast<int64_t>(before + kRounding) + 1];
    of_epoch.sum += point.y;
    ++of_epoch.count;
  }
  for (const auto& [epoch, sums] : losses)
    line.points.push_back({static_cast<double>(epoch), sums.sum / sums.count});
  line.points = thinned(line.points, kMostPoints);
  chart.lines.push_back(std::move(line));
  return chart;
}

std::vector<Chart> metric_charts(const History& history) {
  std::vector<Chart> charts;
  for (const EvalMetric& metric : eval_metrics(history)) {
    if (charts.empty() || charts.back().title != metric.suffix) {
      charts.push_back(new_chart(metric.suffix));
      charts.back().may_be_log = metric.direction == Direction::down;
      charts.back().error_scale = is_accuracy(metric.suffix);
    }
    charts.back().lines.push_back(
        metric_line(history, metric, metric.prefix.empty() ? metric.name : metric.prefix));
  }
  return charts;
}

std::vector<Chart> training_charts(const History& history) {
  std::vector<Chart> charts;
  Chart schedule = new_chart("Learning rate (multiplier of lr)");
  schedule.y_from_zero = true;
  int color = 0;
  for (const auto& [name, points] : history.series) {
    if (!is_schedule(name)) continue;
    schedule.lines.push_back(
        {name, thinned(points_of(history, name), kMostPoints), color++, Line::Look::bold, {}});
  }
  if (color > 0) charts.push_back(std::move(schedule));
  const auto add = [&](const std::string& title, const std::string& name, int line_color,
                       bool may_be_log) {
    if (history.series.find(name) == history.series.end()) return;
    charts.push_back(new_chart(title));
    charts.back().may_be_log = may_be_log;
    charts.back().y_from_zero = !may_be_log;
    add_smoothed(charts.back(), points_of(history, name), name, line_color);
  };
  add("Gradient norm", "l2_grads", 3, true);
  add("Images per second per device", "img/sec/core", 5, false);
  add("Fraction of time waiting for data", "data_wait", 6, false);
  add("Skipped steps so far", "skipped_steps", 1, false);
  add("Rollbacks so far", "rollbacks", 1, false);
  return charts;
}

std::string render_learning_curve(const History& history) {
  std::vector<Chart> charts{loss_chart(history)};
  for (Chart& chart : metric_charts(history)) {
    if (chart.title == "loss") continue;
    charts.push_back(std::move(chart));
    break;
  }
  return chart_file(charts);
}

}  // namespace bv
