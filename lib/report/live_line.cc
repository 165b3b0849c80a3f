#include "lib/report/live_line.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "lib/config/duration.h"
#include "lib/report/metric_direction.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Rounded down, so that 100.0% means the end.
double percent(int64_t step, int64_t total) {
  return std::floor(1000.0 * static_cast<double>(step) / static_cast<double>(total)) / 10;
}

// Compares a value with the previous ones: " (best so far)", " (best 0.983 at step 400)"; "" for
// the first value.
std::string remark(const std::string& name, double value, const MetricSummary& before) {
  const MetricSummary::Entry* entry = before.find(name);
  if (entry == nullptr || !entry->best) return "";
  const MetricSummary::Point best = *entry->best;
  const bool better =
      metric_direction(name) == Direction::up ? value > best.value : value < best.value;
  if (better) return " (best so far)";
  return fmt::format(" (best {} at step {})", short_number(best.value), best.step);
}

}  // namespace

void LiveNumbers::take(const MetricSummary& metrics) {
  if (const auto* entry = metrics.find("training_loss")) loss = entry->last.value;
  metric = metrics.main_metric();
  if (metric.empty()) return;
  const MetricSummary::Entry& entry = *metrics.find(metric);
  value = entry.last.value;
  if (entry.best) best = entry.best->value;
}

void LiveNumbers::take(const Pace& pace) {
  images_per_second = pace.images_per_second();
  data_wait = pace.data_wait();
  eta_seconds = pace.eta_seconds();
}

std::string live_line(const LiveNumbers& numbers) {
  std::string line =
      fmt::format("step {}/{}", human_count(numbers.step), human_count(numbers.total_steps));
  if (numbers.total_steps > 0)
    line += fmt::format(" {:.1f}%", percent(numbers.step, numbers.total_steps));
  if (!numbers.evaluator.empty()) line += "  evaluating " + numbers.evaluator;
  if (numbers.loss) line += "  loss " + short_number(*numbers.loss);
  if (!numbers.metric.empty() && numbers.value) {
    line += fmt::format("  {} {}", numbers.metric, short_number(*numbers.value));
    if (numbers.best) line += fmt::format(" (best {})", short_number(*numbers.best));
  }
  if (numbers.images_per_second) line += "  " + speed_text(*numbers.images_per_second);
  if (numbers.data_wait) line += fmt::format("  data {:.0f}%", 100 * *numbers.data_wait);
  if (numbers.memory)
    line += fmt::format("  {} {}", numbers.memory_name, human_bytes(*numbers.memory));
  if (numbers.eta_seconds && *numbers.eta_seconds > 0.5)  // less would be shown as 0s
    line += "  ETA " + duration_text(*numbers.eta_seconds);
  return line;
}

std::string speed_number(double images_per_second) {
  if (images_per_second < 100) return fmt::format("{:.3g}", images_per_second);
  return human_count(std::llround(images_per_second));
}

std::string speed_text(double images_per_second) {
  return speed_number(images_per_second) + " img/s";
}

std::string short_duration(double seconds) {
  return seconds < 9.95 ? fmt::format("{:.2g}s", seconds) : duration_text(seconds);
}

std::string evaluation_line(int64_t step, const std::string& evaluator, const Row& values,
                            double seconds, const MetricSummary& before) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  const std::string main = choose_main_metric(names);
  std::string line = fmt::format("[{}] ", step);
  for (const auto& [name, value] : values) {
    line += fmt::format("{}={}{}  ", name, short_number(value),
                        name == main ? remark(name, value, before) : "");
  }
  if (values.empty()) line += evaluator + ": done  ";
  return line + short_duration(seconds);
}

}  // namespace bv
