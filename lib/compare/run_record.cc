#include "lib/compare/run_record.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/config/load_config.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

void warn_of_damage(const std::string& file, const MetricScan& metrics,
                    std::vector<std::string>& warnings) {
  if (metrics.damaged == 1) {
    warnings.push_back(
        fmt::format("{}:{}: warning: not a metric row, or out of step order; it is ignored", file,
                    metrics.first_damaged));
  } else if (metrics.damaged > 1) {
    warnings.push_back(
        fmt::format("{}:{}: warning: {} lines from here on are not metric rows, or out of step "
                    "order; they are ignored",
                    file, metrics.first_damaged, metrics.damaged));
  }
  if (metrics.cut_line > 0) {
    warnings.push_back(fmt::format("{}:{}: warning: the last row is incomplete; it is ignored",
                                   file, metrics.cut_line));
  }
}

bool holds(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// Adds what config.yaml does not contain: the key "--synthetic" if the data were generated, what
// `precision: auto` meant, and a key such as "lr until step 100" for each value that a restart
// replaced, unless the change did not affect the training.
void add_history(const nlohmann::json& run_json, FlatConfig& config) {
  using nlohmann::json;
  // Older versions did not record it.
  const bool flag = holds(run_json.value("argv", std::vector<std::string>()), "--synthetic");
  if (run_json.value("synthetic", json(flag)) == true) config["--synthetic"] = "true";
  const auto choice = config.find("precision");
  const json used = run_json.value("precision", json());
  if (choice != config.end() && choice->second == "\"auto\"" && used.is_string())
    choice->second = used.dump();
  for (const auto& restart : run_json.value("config_changes", json::array())) {
    const auto harmless = restart.value("harmless", std::vector<std::string>());
    for (const auto& change : restart.at("changes")) {
      const auto text = change.get<std::string>();  // "lr: 0.1 -> 0.2"
      if (holds(harmless, text)) continue;
      const size_t colon = text.find(": "), arrow = text.rfind(" -> ");
      if (colon == std::string::npos || arrow == std::string::npos || arrow < colon) continue;
      const std::string key =
          fmt::format("{} until step {}", text.substr(0, colon), restart.at("step").get<int64_t>());
      const std::string before = text.substr(colon + 2, arrow - colon - 2);
      if (json_nesting(before) > limits::kJsonNesting) continue;  // no config has such a value
      config[key] = json::accept(before) ? before : json(before).dump();
    }
  }
}

}  // namespace

std::optional<RunRecord> read_run(const std::string& dir, bool with_curves,
                                  std::vector<std::string>& warnings) {
  const Workdir workdir(dir);
  if (!file_exists(workdir.config())) {
    warnings.push_back(fmt::format(
        "{}: warning: the run has no config.yaml, so it cannot be compared; left out", dir));
    return std::nullopt;
  }
  try {
    RunRecord run;
    run.workdir = dir;
    const std::string text = read_file(workdir.config(), limits::kRunConfigBytes);
    const Config config = parse_config(text, workdir.config());
    run.config = flat_config(config);
    run.defaults = default_keys(config, text);
    run.defaults.erase("precision");  // add_history() replaces `auto` by what it has meant
    if (const auto seed = run.config.find("seed"); seed != run.config.end()) {
      run.seed = seed->second;
      run.config.erase(seed);
    }
    run.fold = take_fold(run.config);
    const nlohmann::json run_json = peek_run_json(workdir.run_json());
    add_history(run_json, run.config);
    const auto changes = run_json.value("config_changes", nlohmann::json::array());
    const auto owners = run_json.value(kMetricOwnersKey, std::map<std::string, std::string>());
    run.metrics =
        scan_metrics(workdir.metrics(), with_curves, changed_metrics(changes, config, owners));
    run.status = read_status(workdir, config, run.metrics);
    warn_of_damage(workdir.metrics(), run.metrics, warnings);
    return run;
  } catch (const Error& error) {
    if (error.code() != Exit::usage && error.code() != Exit::storage) throw;
    // If there are several problems, the first one is enough.
    warnings.push_back(fmt::format("{}: warning: left out: {}", dir, split(error.what(), '\n')[0]));
    return std::nullopt;
  }
}

}  // namespace bv
