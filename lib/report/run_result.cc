#include "lib/report/run_result.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/config/duration.h"
#include "lib/report/live_line.h"
#include "lib/util/json_text.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Json = nlohmann::ordered_json;

const char* status(Exit code) {
  switch (code) {
    case Exit::ok:
      return "finished";
    case Exit::stopped:
    case Exit::sigint:
    case Exit::sigterm:
      return "stopped";
    case Exit::diverged:
      return "diverged";
    default:
      return "failed";
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json point(const MetricSummary::Point& point) {
  return {{"value", json_value(point.value)}, {"step", point.step}};
}

void add_metrics(Json& root, const MetricSummary& metrics) {
  Json last = Json::object(), best = Json::object();
  for (const auto& [name, entry] : metrics.entries()) {
    if (!is_result(name)) continue;
    last[name] = point(entry.last);
    if (entry.best) best[name] = point(*entry.best);
  }
  root["main_metric"] = text_or_null(metrics.main_metric());
  root["final"] = last;
  root["best"] = best;
}

std::string main_metric_line(const MetricSummary& metrics) {
  const std::string main = metrics.main_metric();
  if (main.empty()) return "";
  const MetricSummary::Entry& entry = *metrics.find(main);
  const std::string last = short_number(entry.last.value);
  if (!entry.best) return fmt::format("{}: {}", main, last);
  return fmt::format("{}: best {} at step {}, final {}", main, short_number(entry.best->value),
                     human_count(entry.best->step), last);
}

}  // namespace

std::string result_json(const RunResult& result) {
  Json root = {{"status", status(result.code)},     {"exit_code", static_cast<int>(result.code)},
               {"reason", result.reason},           {"step", result.step},
               {"total_steps", result.total_steps}, {"first_step", result.first_step}};
  add_metrics(root, result.metrics ? *result.metrics : MetricSummary());
  root["started"] = result.started;
  root["ended"] = result.ended;
  root["wall_seconds"] = result.wall_seconds;
  root["training_seconds"] = result.training_seconds;
  root["total_wall_seconds"] = result.total_wall_seconds;
  root["total_training_seconds"] = result.total_training_seconds;
  root["images_per_second"] = result.images_per_second ? Json(*result.images_per_second) : Json();
  root["config_hash"] = result.config_hash;
  root["seed"] = result.seed;
  root["precision"] = result.precision;
  root["precision_config"] = result.precision_config;
  root["host"] = result.host;
  root["device"] = result.device;
  root["processes"] = result.processes;
  root["version"] = result.version;
  root["workdir"] = result.workdir;
  root["report"] = text_or_null(result.report);
  root["checkpoint"] = text_or_null(result.checkpoint);
  root["best_checkpoints"] = Json::array();
  for (const RunResult::Best& best : result.best_checkpoints) {
    root["best_checkpoints"].push_back({{"metric", best.metric},
                                        {"value", json_value(best.value)},
                                        {"step", best.step},
                                        {"checkpoint", best.checkpoint}});
  }
  root["failed_saves"] = result.failed_saves;
  root["left_out_saves"] = result.left_out_saves;
  return json_text(root, 2) + "\n";  // a path or an error may contain bytes that are not UTF-8
}

std::vector<std::string> closing_lines(const RunResult& result) {
  std::string times =
      fmt::format("{} of {} steps in {}", human_count(result.step), human_count(result.total_steps),
                  duration_text(result.wall_seconds));
  if (result.first_step > 0)
    times += fmt::format(" since the restart at step {}", human_count(result.first_step));
  if (result.images_per_second) times += ", " + speed_text(*result.images_per_second);
  times +=
      ", precision " + (result.precision == result.precision_config
                            ? result.precision
                            : fmt::format("{} ({})", result.precision_config, result.precision));
  std::vector<std::string> lines = {times};
  if (result.metrics) {
    if (const std::string line = main_metric_line(*result.metrics); !line.empty())
      lines.push_back(line);
  }
  for (const RunResult::Best& best : result.best_checkpoints) {
    lines.push_back(fmt::format("Best checkpoint: {} (step {}, {} {})", best.checkpoint,
                                human_count(best.step), best.metric, short_number(best.value)));
  }
  for (const RunResult::NoBest& none : result.no_best) {
    lines.push_back(
        fmt::format("No {}: {} was never a finite number", none.checkpoint, none.metric));
  }
  if (result.failed_saves > 0) {
    lines.push_back(fmt::format(
        "Checkpoints that could not be written: {} (see the warnings above)", result.failed_saves));
  }
  if (result.left_out_saves > 0) {
    lines.push_back(fmt::format("Checkpoints skipped because they were due too often: {}",
                                human_count(result.left_out_saves)));
  }
  if (!result.report.empty()) lines.push_back("Report: " + result.report);
  return lines;
}

std::string config_hash(const std::string& config_json) {
  const auto sorted = nlohmann::json::parse(config_json).dump();  // sorts the keys
  return fmt::format("{:016x}", hash64(sorted));
}

}  // namespace bv
