#include "lib/train/profile.h"

#include <algorithm>
#include <vector>

#include "lib/config/key_table.h"
#include "lib/device/kernel_record.h"
#include "lib/report/log.h"
#include "lib/report/trace.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable profile_top_keys(
    "", {},
    {{"profile", "map", "none",
      "Profiles a few steps and writes a trace to `trace/rank-<r>.json` in the "
      "workdir, one file per process. Open it in ui.perfetto.dev or "
      "chrome://tracing. Write `profile: {}` to record three steps.",
      "{first_step: 10, steps: 3}", "-"}});

const KeyTable profile_keys(
    "profile",
    {"Profiles a few steps: waiting for data, computation, communication and checkpoints; on a GPU "
     "also kernels and copies. The log has a summary.",
     "first_step: 10\nsteps: 3"},
    {{"first_step", "int >= 1", "10",
      "First step to record, not after the last step of the run. The very first steps are slower "
      "and not representative. A run that continues after this step records nothing."},
     {"steps", "int 1..1000", "3", "Number of steps to record."}});

constexpr int64_t kMostSteps = 1000;

// Returns the durations of the recorded steps in seconds, ascending.
std::vector<double> step_times(const trace::Record& record) {
  std::vector<double> times;
  for (const trace::Event& event : record.events) {
    if (!event.async && event.name.starts_with("step "))
      times.push_back(static_cast<double>(event.end - event.begin) * 1e-9);
  }
  std::sort(times.begin(), times.end());
  return times;
}

// Returns "overlap: 83% of communication ran during backward", or "" if nothing was sent.
std::string overlap_line(const std::vector<trace::Event>& events) {
  std::string line;
  if (const auto part = trace::overlap(events, "gradients", {"backward"}, "wait for "))
    line = fmt::format("overlap: {:.0f}% of communication ran during backward", 100 * *part);
  const auto part =
      trace::overlap(events, "parameters", {"forward", "backward", "optimizer"}, "wait for ");
  if (part)
    line += fmt::format("{}{:.0f}% of gathering parameters ran during computation",
                        line.empty() ? "overlap: " : ", ", 100 * *part);
  return line;
}

}  // namespace

std::optional<ProfileSteps> read_profile(const Config& config, int64_t total_steps) {
  if (!config.has("profile")) return std::nullopt;
  const Config keys = config.section("profile");
  ProfileSteps what;
  what.first_step = keys.get<int64_t>("first_step", what.first_step);
  what.steps = keys.get<int64_t>("steps", what.steps);
  if (what.first_step < 1)
    keys.problem("first_step", fmt::format("steps count from 1, got {}", what.first_step));
  else if (what.first_step > total_steps)
    keys.problem("first_step",
                 fmt::format("{} is after the last step, {}", what.first_step, total_steps));
  if (what.steps < 1 || what.steps > kMostSteps)
    keys.problem("steps", fmt::format("must be between 1 and {}, got {}", kMostSteps, what.steps));
  keys.done();
  return what;
}

Profile::~Profile() {
  if (state_ != State::running) return;
  trace::Record record = trace::stop();  // the run failed
  try {
    if (!device_.is_cpu()) stop_kernel_record(device_, record);
  } catch (const std::exception&) {
    // It is not possible to wait for a failed device.
  }
}

void Profile::at(int64_t step) {
  if (!what_ || state_ == State::done) return;
  if (state_ == State::running) {
    if (step >= what_->first_step + what_->steps) write();
    return;
  }
  if (step < what_->first_step) return;
  if (step > what_->first_step) {
    state_ = State::done;
    log::info("profile: the run starts after step {}; nothing is recorded", what_->first_step);
    return;
  }
  state_ = State::running;
  sent_before_ = group_.counts().bytes_sent;
  trace::start();
  if (!device_.is_cpu()) start_kernel_record(device_.type());
}

void Profile::finish() {
  if (state_ == State::running) write();
}

void Profile::write() {
  state_ = State::done;
  trace::Record record = trace::stop();
  const int64_t busy = device_.is_cpu() ? 0 : stop_kernel_record(device_, record);
  const int64_t sent = group_.counts().bytes_sent - sent_before_;
  if (workdir_) {
    workdir_->folder()->require_there();
    const std::string file = workdir_->trace(group_.rank());
    make_folders(file.substr(0, file.rfind('/')));
    write_file_atomically(file, trace::chrome_json(record, group_.rank()), /*sync=*/false);
    log::info("Wrote {} (open it in ui.perfetto.dev)", file);
  }
  const std::vector<double> times = step_times(record);
  if (times.empty()) return;
  const auto steps = static_cast<double>(times.size());
  log::info(
      "profile: {} steps, median {:.4g} ms per step{}", times.size(), 1e3 * times[times.size() / 2],
      group_.size() == 1
          ? ""
          : fmt::format(", {} sent per step", human_bytes(static_cast<double>(sent) / steps)));
  if (!device_.is_cpu())
    log::info("profile: the device is busy for {:.4g} ms per step",
              1e-6 * static_cast<double>(busy) / steps);
  if (const std::string line = overlap_line(record.events); !line.empty()) log::info("{}", line);
}

}  // namespace bv
