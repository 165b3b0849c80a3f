#include "lib/train/time_limit.h"

#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/report/chrono.h"
#include "lib/report/log.h"
#include "lib/util/host.h"
#include "lib/util/parse_count.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

// Tells ranks when the launcher wants them to stop: monotonic_seconds() in milliseconds.
constexpr const char* kStopVariable = "BVTRAIN_GROUP_STOP_TIME";
constexpr int64_t kSlurmMargin = 120;  // seconds to save, as in slurm.sbatch
constexpr int64_t kUnlimited =
    int64_t{10} * 366 * 86400;  // 10 years; slurm reports about a century for a job without a limit

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_rank_of_launcher() { return !variable("BVTRAIN_GROUP_RANK").empty(); }

std::string slurm_job() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID");
  return array.empty() ? variable("SLURM_JOB_ID") : array + "_" + variable("SLURM_ARRAY_TASK_ID");
}

// Whether this process requeues the job: only one process of a run does.
bool requeues(const TimeLimit& limit) {
  if (!limit.requeue || is_rank_of_launcher()) return false;
  const RankLayout& layout = limit.layout;
  // SLURM_PROCID does not tell ranks apart: all ranks that torchrun or mpirun starts on a host
  // inherit the same one.
  if (layout.size > 1 && layout.found_by != "self")
    return (layout.launches ? layout.node : layout.rank) == 0;
  const std::string task = variable("SLURM_PROCID");
  return task.empty() || task == "0";
}

// The step and the manifest_identity() of each checkpoint. A save adds a checkpoint. Its step
// need not be the highest: if a checkpoint is damaged, the run continues from an earlier one.
using Checkpoints = std::set<std::pair<int64_t, std::array<int64_t, 3>>>;

Checkpoints checkpoints_in(const std::string& workdir) {
  if (workdir.empty()) return {};
  const CkptFolder ckpt = Workdir(workdir).ckpt();
  Checkpoints found;
  for (const int64_t step : ckpt.steps()) found.emplace(step, manifest_identity(ckpt.step(step)));
  return found;
}

Checkpoints g_first_checkpoints;  // before the run started

// Returns when the run has to stop, in seconds of monotonic_seconds(); nullopt: never. Not the time
// of day, which may be changed while the run trains.
std::optional<double> stop_time(const TimeLimit& limit) {
  const int64_t now = std::time(nullptr);
  std::optional<double> stop;
  if (!limit.max_time.empty()) stop = program_start() + parse_time_limit(limit.max_time);
  const auto end = parse_count(variable("SLURM_JOB_END_TIME"));
  if (!end || *end > now + kUnlimited) return stop;
  if (*end <= now) {
    log::warn("SLURM_JOB_END_TIME is in the past ({}); ignored", utc_text(*end));
    return stop;
  }
  // A short job gets at least half of its time.
  const int64_t left = *end - now;
  const double before_end =
      monotonic_seconds() + static_cast<double>(std::max(left - kSlurmMargin, left / 2));
  return stop ? std::min(*stop, before_end) : before_end;
}

}  // namespace

double parse_time_limit(std::string_view text) {
  constexpr std::array<std::pair<char, int64_t>, 4> kUnits = {
      {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
  int64_t seconds = 0;
  size_t unit = 0;
  bool valid = !text.empty();
  for (size_t at = 0; valid && at < text.size();) {
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    const auto number = parse_count(text.substr(at, end - at));
    while (unit < kUnits.size() && end < text.size() && kUnits[unit].first != text[end]) ++unit;
    valid = number && *number < 1'000'000'000 && end < text.size() && unit < kUnits.size();
    if (valid) seconds += *number * kUnits[unit++].second;
    at = end + 1;
  }
  if (valid && seconds > 0) return static_cast<double>(seconds);
  throw Error(Exit::usage, fmt::format("--max-time {}", text),
              "expected a time such as 90s, 30m, 47h50m or 2d");
}

void set_time_limit(const TimeLimit& limit) {
  if (limit.requeue && slurm_job().empty())
    throw Error(Exit::usage, "--requeue", "this is not a slurm job ($SLURM_JOB_ID is not set)");
  if (requeues(limit)) g_first_checkpoints = checkpoints_in(limit.workdir);
  if (is_rank_of_launcher()) {
    if (const auto stop = parse_count(variable(kStopVariable)))
      stop_at(static_cast<double>(*stop) / 1000);
    return;
  }
  const std::optional<double> stop = stop_time(limit);
  if (!stop) return;
  const std::time_t time = std::time(nullptr) + std::llround(*stop - monotonic_seconds());
  log::info("The run saves and stops at {} at the latest", utc_text(time));
  ::setenv(kStopVariable, std::to_string(std::llround(*stop * 1000)).c_str(), /*overwrite=*/1);
  stop_at(*stop);
}

void requeue_job(const TimeLimit& limit) {
  if (!requeues(limit)) return;
  std::string job = slurm_job();
  const Checkpoints now = checkpoints_in(limit.workdir);
  if (std::includes(g_first_checkpoints.begin(), g_first_checkpoints.end(), now.begin(),
                    now.end())) {
    log::warn(
        "slurm job {} is not requeued: it saved no step, so it would stop at the same point again",
        job);
    return;
  }
  log::info("Requeueing slurm job {}", job);
  log::flush();
  std::string command = "scontrol", verb = "requeue";
  char* argv[] = {command.data(), verb.data(), job.data(), nullptr};
  pid_t pid = 0;
  int status = 0;
  const int error = ::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv, environ);
  if (error == 0 && ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
      WEXITSTATUS(status) == 0)
    return;
  log::warn("`scontrol requeue {}` failed: submit the job again to continue", job);
}

}  // namespace bv
