#include "lib/compare/run_status.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lib/config/duration.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns the number of examples per epoch, or 0 if unknown. It compares the last row that has an
// epoch with the previous one, or else with the start, so that steps before a change of the batch
// size do not count.
int64_t data_size(const MetricScan& metrics, int64_t batch_size) {
  const auto epoch = metrics.series.find("epoch");
  if (epoch == metrics.series.end()) return 0;
  const auto& [step, value] = epoch->second.last;
  const auto [before, value_before] =
      epoch->second.count > 1 ? epoch->second.previous : MetricSeries::StepValue{0, 0};
  const double size =
      static_cast<double>(step - before) / (value - value_before) * static_cast<double>(batch_size);
  return size >= 1 && size < 1e15 ? std::llround(size) : 0;  // false for NaN
}

// Returns the run length that the config sets. Uses `progress` only if the config needs the size of
// the data set: after the length was raised, old rows still have the progress of the old length.
std::optional<int64_t> total_steps(const Config& config, const MetricScan& metrics) {
  try {
    RunLength length;
    length.batch_size = config.section("input").get<int64_t>("batch_size", 0);
    length.data_size = data_size(metrics, length.batch_size);
    if (const auto steps = duration_steps(config, "total", length)) return steps;
  } catch (const Error&) {
    // No row shows yet how many steps an epoch has.
  }
  const auto progress = metrics.series.find("progress");
  if (progress == metrics.series.end()) return std::nullopt;
  const auto& [step, part] = progress->second.last;
  const double total = static_cast<double>(step) / part;
  if (!(total >= 1 && total < 1e15)) return std::nullopt;
  return std::llround(total);
}

// Returns the number in a file of one line; nullopt if there is none.
std::optional<int> number_in(const std::string& file) {
  try {
    return parse_count<int>(trim(read_file(file, limits::kNoteBytes)));
  } catch (const Error&) {
    // The file does not exist or cannot be read.
  }
  return std::nullopt;
}

// Returns the content of result.json, which a run writes when it ends; null if there is no such
// file, or if it is damaged.
nlohmann::json result_of(const Workdir& workdir) {
  try {
    const auto text = read_file_if_any(workdir.result(), limits::kRunResultBytes);
    nlohmann::json result = shallow_json(text.value_or(""));
    if (result.is_object()) return result;
  } catch (const Error&) {
    // It cannot be read.
  }
  return {};
}

// Returns the exit code of the last start of the run; nullopt if it is still running or was killed.
std::optional<int> ended_with(const Workdir& workdir) {
  const nlohmann::json result = result_of(workdir);
  const bool known = result.contains("exit_code") && result.at("exit_code").is_number_integer();
  return known ? std::optional(result.at("exit_code").get<int>()) : std::nullopt;
}

// Returns when the file was written; the earliest time if there is none.
std::filesystem::file_time_type time_written(const std::string& file) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(file, error);
  return error ? std::filesystem::file_time_type::min() : time;
}

// Returns the code in FAILED, which cron.sh, sweep.sh and slurm.sbatch write when a start has
// ended; nullopt if there is none, or if a later start has written run.json or result.json.
std::optional<int> noted_failure(const Workdir& workdir) {
  const auto noted = time_written(workdir.failed());
  const bool later =
      noted < time_written(workdir.run_json()) || noted < time_written(workdir.result());
  return later ? std::nullopt : number_in(workdir.failed());
}

// Returns whether a run exits with this code after a signal or a time limit.
bool is_stop(int code) {
  switch (static_cast<Exit>(code)) {
    case Exit::stopped:
    case Exit::sigint:
    case Exit::sigterm:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string last_config_hash(const Workdir& workdir) {
  const nlohmann::json result = result_of(workdir);
  const bool known = result.contains("config_hash") && result.at("config_hash").is_string();
  return known ? result.at("config_hash").get<std::string>() : "";
}

int failure_code(const Workdir& workdir) {
  // A start that dies early writes no result.json and leaves the earlier one.
  std::optional<int> code = noted_failure(workdir);
  if (!code) code = ended_with(workdir);
  return !code || *code == static_cast<int>(Exit::ok) || is_stop(*code) ? 0 : *code;
}

bool was_stopped(const Workdir& workdir) { return is_stop(ended_with(workdir).value_or(0)); }

const char* kind_name(RunStatus::Kind kind) {
  constexpr const char* kNames[] = {"finished", "unfinished", "diverged", "failed"};
  return kNames[static_cast<int>(kind)];
}

std::string RunStatus::text() const {
  std::string out = kind_name(kind);
  if (finished()) return out;
  if (kind == Kind::failed) out += fmt::format(" with code {}", code);
  out += fmt::format(" at step {}", step);
  if (total) out += fmt::format(" of {}", *total);
  return out;
}

RunStatus read_status(const Workdir& workdir, const Config& config, const MetricScan& metrics) {
  RunStatus status;
  status.step = metrics.last_step;
  const std::vector<int64_t> saved = workdir.ckpt().steps();
  if (!saved.empty()) status.step = std::max(status.step, saved.back());
  status.total = total_steps(config, metrics);
  const std::optional<Workdir::Done> done = workdir.finished();
  // The length may have been raised after the run finished. As in finished_at(), a DONE whose step
  // the run has not reached is ignored. A run that saves nothing need not have a row of that step.
  const bool unsaved = saved.empty() && metrics.rows > 0;
  const bool at_end =
      done && (!done->early.empty() || done->step >= status.total.value_or(done->step));
  if (at_end && (status.step >= done->step || unsaved)) {
    status.kind = RunStatus::Kind::finished;
    status.step = done->step;
    return status;
  }
  status.code = failure_code(workdir);
  if (status.code == static_cast<int>(Exit::diverged))
    status.kind = RunStatus::Kind::diverged;
  else if (status.code != 0)
    status.kind = RunStatus::Kind::failed;
  return status;
}

}  // namespace bv
