#include "lib/compare/run_record.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/config/load_config.h"
#include "lib/report/page/report_charts.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"
#include "lib/util/version_text.h"

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

std::string version_of(const nlohmann::json& run_json) {
  const auto text = [&](const char* name) {
    const auto member = run_json.find(name);
    return member != run_json.end() && member->is_string() ? member->get<std::string>() : "";
  };
  return version_text(text("version"), text("commit"));
}

// Returns when the run that `bvtrain eval` has measured first started, as in its run.json; "" if
// that is not known. `rows`: the folder of the rows.
std::string start_of_evaluated(const Workdir& rows) {
  if (!file_exists(rows.evaluated())) return "";
  const std::string text = read_file(rows.evaluated(), limits::kRunConfigBytes);
  if (json_nesting(text) > limits::kJsonNesting) return "";
  const auto record = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer start("/run/first_started");
  if (!record.is_object() || !record.contains(start) || !record.at(start).is_string()) return "";
  return record.at(start).get<std::string>();
}

// Adds to the run the metrics of `bvtrain eval` that the run itself has not measured, or has not
// measured at its end.
void add_evaluated(const Workdir& workdir, const std::string& first_started, bool with_curves,
                   RunRecord& run, std::vector<std::string>& warnings) {
  const Workdir rows(workdir.evaluation());
  try {
    MetricScan scan = scan_metrics(rows.metrics(), with_curves);
    const std::string measured = scan.series.empty() ? "" : start_of_evaluated(rows);
    if (!measured.empty() && !first_started.empty() && measured != first_started) {
      warnings.push_back(fmt::format(
          "{}: warning: these rows are those of an earlier run in the workdir; left out",
          rows.metrics()));
      return;
    }
    warn_of_damage(rows.metrics(), scan, warnings);
    for (auto& [name, series] : scan.series) {
      if (is_trainers_own(name)) continue;
      const auto own = run.metrics.series.find(name);
      const bool later = own != run.metrics.series.end() && run.is_outdated(name) &&
                         series.last.first > own->second.last.first;
      if (own == run.metrics.series.end() || later)
        run.metrics.series.insert_or_assign(name, std::move(series));
    }
  } catch (const Error& error) {
    if (error.code() != Exit::usage && error.code() != Exit::storage) throw;
    warnings.push_back(fmt::format("{}: warning: left out: {}", rows.metrics(), error.message()));
  }
}

}  // namespace

bool RunRecord::is_outdated(const std::string& metric) const {
  const auto found = metrics.series.find(metric);
  return status.finished() && found != metrics.series.end() && !is_trainers_own(metric) &&
         found->second.last.first < metrics.last_step;
}

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
    run.version = version_of(run_json);
    const auto changes = run_json.value("config_changes", nlohmann::json::array());
    const auto owners = run_json.value(kMetricOwnersKey, std::map<std::string, std::string>());
    run.metrics =
        scan_metrics(workdir.metrics(), with_curves, changed_metrics(changes, config, owners));
    run.status = read_status(workdir, config, run.metrics);
    warn_of_damage(workdir.metrics(), run.metrics, warnings);
    add_evaluated(workdir, run_json.value("first_started", std::string()), with_curves, run,
                  warnings);
    return run;
  } catch (const Error& error) {
    if (error.code() != Exit::usage && error.code() != Exit::storage) throw;
    // If there are several problems, the first one is enough.
    warnings.push_back(fmt::format("{}: warning: left out: {}", dir, split(error.what(), '\n')[0]));
    return std::nullopt;
  }
}

}  // namespace bv
