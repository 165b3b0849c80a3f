#include "lib/ckpt/workdir/earlier_run.h"

#include <algorithm>

#include "lib/report/log.h"
#include "lib/report/metric_file.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/json_text.h"
#include "lib/util/limits.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using nlohmann::json;

// Returns the checkpoint that the last start of the run left, as recorded in result.json; "" if
// there was none or it is unknown. A killed process writes no result.json.
std::string saved_before(const Workdir& workdir) {
  const json result = shallow_json(read_file_if_any(workdir.result()).value_or(""));
  const bool known = result.is_object() && result.contains("checkpoint");
  return known && result["checkpoint"].is_string() ? result["checkpoint"].get<std::string>() : "";
}

// What is wrong with run.json; "" if nothing is.
std::string run_json_fault(const json& run) {
  if (run.is_discarded()) return "is not JSON";
  if (const std::string fault = json_fault(run, JsonKind::object); !fault.empty()) return fault;
  const auto member_fault = [](const json& object, const char* name, JsonKind kind) {
    const auto member = object.find(name);
    const std::string fault = member == object.end() ? "" : json_fault(*member, kind);
    return fault.empty() ? "" : fmt::format("'{}' {}", name, fault);
  };
  for (const auto& [name, kind] : {std::pair{"restarts", JsonKind::count},
                                   {"first_started", JsonKind::text},
                                   {"started", JsonKind::text},
                                   {"argv", JsonKind::texts},
                                   {"config_changes", JsonKind::list},
                                   {"rollbacks", JsonKind::list},
                                   {kMetricOwnersKey, JsonKind::object}}) {
    if (const std::string fault = member_fault(run, name, kind); !fault.empty()) return fault;
  }
  for (const json& restart : run.value("config_changes", json::array())) {
    if (!restart.is_object() || !restart.contains("step") || !restart.contains("changes"))
      return "'config_changes' holds an entry without 'step' and 'changes'";
    for (const auto& [name, kind] : {std::pair{"step", JsonKind::count},
                                     {"changes", JsonKind::texts},
                                     {"harmless", JsonKind::texts},
                                     {"evaluators", JsonKind::texts}}) {
      if (const std::string fault = member_fault(restart, name, kind); !fault.empty())
        return "'config_changes': " + fault;
    }
  }
  for (const json& owner : run.value(kMetricOwnersKey, json::object())) {
    if (const std::string fault = json_fault(owner, JsonKind::text); !fault.empty())
      return fmt::format("'{}': {}", kMetricOwnersKey, fault);
  }
  for (const json& rollback : run.value("rollbacks", json::array())) {
    for (const char* name : {"step", "to", "examples"}) {
      if (!rollback.is_object() || !rollback.contains(name))
        return fmt::format("'rollbacks' holds an entry without '{}'", name);
      if (const std::string fault = member_fault(rollback, name, JsonKind::count); !fault.empty())
        return "'rollbacks': " + fault;
      if (const auto number = rollback.at(name).get<int64_t>(); number > limits::kStreamCount)
        return fmt::format("'rollbacks': '{}' is {}, at most {} is possible", name, number,
                           limits::kStreamCount);
    }
  }
  return "";
}

}  // namespace

void note_saved(const std::string& run_json) {
  json run = shallow_json(read_file_if_any(run_json).value_or(""));
  if (!run.is_object() || run.value(kSavedKey, json()) == true) return;
  run[kSavedKey] = true;
  write_file_atomically(run_json, json_text(run, 2) + "\n");
}

std::optional<Workdir::Done> finished_at(const Workdir& workdir) {
  if (!file_exists(workdir.done())) return std::nullopt;
  const std::optional<Workdir::Done> done = workdir.finished();
  if (!done) {
    log::warn("{}: does not contain a number of steps; ignored", workdir.done());
    return std::nullopt;
  }
  const std::vector<int64_t> saved = workdir.ckpt().steps();
  if (std::binary_search(saved.begin(), saved.end(), done->step)) return done;
  // The checkpoints of a finished run may have been deleted. Its rows go up to the last step,
  // unless log_training_steps is 0. With keep_ckpt_steps: 0, a run may also have saved none.
  const std::optional<int64_t> row = last_row_step(workdir.metrics());
  if (row && (saved.empty() || *row >= done->step)) return done;
  log::warn(
      "{}: says that the run finished at step {}, but there is neither a checkpoint nor a metric "
      "row of that step; ignored",
      workdir.done(), done->step);
  return std::nullopt;
}

void require_checkpoints(const Workdir& workdir) {
  const CkptFolder ckpt = workdir.ckpt();
  if (!ckpt.steps().empty()) return;
  if (const auto last = read_file_if_any(ckpt.last(), limits::kNoteBytes)) {
    throw Error(
        Exit::usage, ckpt.path(),
        fmt::format(
            "LAST names {}, but there is no checkpoint here, so the run cannot "
            "continue; put its folder back, or remove LAST and metrics.jsonl to start the run from "
            "the beginning, or choose another --workdir",
            printable(trim(*last))));
  }
  const auto row = last_row_step(workdir.metrics());
  if (!row) return;
  if (const std::string saved = saved_before(workdir); !saved.empty()) {
    throw Error(Exit::usage, ckpt.path(),
                fmt::format("result.json names the checkpoint {}, but there is none here, so the "
                            "run cannot continue; put its folder back, or remove metrics.jsonl to "
                            "start the run from the beginning, or choose another --workdir",
                            printable(saved)));
  }
  const json run = shallow_json(read_file_if_any(workdir.run_json()).value_or(""));
  const bool noted = run.is_object() && run.value(kSavedKey, json()) == true;
  if (noted && file_exists(ckpt.path())) {
    throw Error(Exit::usage, ckpt.path(),
                "run.json says that the run has saved a checkpoint, but there is none here, so the "
                "run cannot continue; put its folder back, or remove metrics.jsonl to start the "
                "run from the beginning, or choose another --workdir");
  }
  // A run makes ckpt/ before it writes its first row.
  if (!file_exists(ckpt.path())) {
    throw Error(
        Exit::usage, workdir.dir(),
        fmt::format("metrics.jsonl has rows up to step {}, but the folder ckpt/ is gone, so "
                    "the run cannot continue; put ckpt/ back, or remove metrics.jsonl to "
                    "start the run from the beginning, or choose another --workdir",
                    *row));
  }
}

EarlierStarts read_earlier_starts(const std::string& run_json) {
  const std::optional<std::string> text = read_file_if_any(run_json);
  if (!text) return {};
  const json run = shallow_json(*text);
  const std::string fault = json_nesting(*text) > limits::kJsonNesting
                                ? fmt::format("is nested more than {} deep", limits::kJsonNesting)
                                : run_json_fault(run);
  if (!fault.empty()) {
    const std::string aside = put_aside(run_json, *text);
    log::warn(
        "{}: {}; the number of restarts and the list of config changes start over; a copy of the "
        "file is {}",
        run_json, fault, aside);
    return {};
  }
  return {run.value("restarts", int64_t{0}) + 1,
          run.value("first_started", run.value("started", std::string())),
          run.value("config_changes", json::array()), run.value("rollbacks", json::array())};
}

std::string metric_prefix(const Config& evals, const std::string& name) {
  const std::string prefix = name + "/";
  return evals.is_map(name) ? evals.section(name).get("prefix", prefix.c_str()) : prefix;
}

MeasuredAnew changed_metrics(const nlohmann::json& config_changes, const Config& config,
                             const std::map<std::string, std::string>& owners) {
  MeasuredAnew changed;
  std::map<std::string, int64_t> steps;  // by evaluator
  const Config evals = config.section("evals");
  const auto prefix_of = [&](const std::string& name) { return metric_prefix(evals, name); };
  for (const json& restart : config_changes) {
    for (const json& each : restart.value("evaluators", json::array())) {
      const auto name = each.get<std::string>();
      changed[prefix_of(name)] = steps[name] = restart.at("step").get<int64_t>();
    }
  }
  if (changed.empty()) return changed;
  for (const std::string& name : evals.keys()) {
    if (evals.is_map(name)) changed.emplace(prefix_of(name), -1);
  }
  for (const auto& [metric, evaluator] : owners) {
    const auto step = steps.find(evaluator);
    changed[metric] = step == steps.end() ? -1 : step->second;
  }
  return changed;
}

nlohmann::json peek_run_json(const std::string& run_json) {
  json run = shallow_json(read_file_if_any(run_json).value_or(""));
  return run_json_fault(run).empty() ? run : json::object();
}

nlohmann::json peek_rollbacks(const std::string& run_json) {
  return peek_run_json(run_json).value("rollbacks", json::array());
}

}  // namespace bv
