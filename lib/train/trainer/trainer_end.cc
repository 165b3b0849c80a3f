// The end of a run: after the last step, after a signal, or because of an error.
#include <chrono>
#include <ctime>
#include <filesystem>
#include <future>
#include <thread>

#include "lib/device/cuda.h"
#include "lib/report/log.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::chrono::seconds kFlushTime{2};

const char* stop_name(Exit code) {
  if (stopped_by_time()) return "the time limit";
  return code == Exit::sigint ? "SIGINT" : code == Exit::stopped ? "SIGUSR1" : "SIGTERM or SIGHUP";
}

std::string absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  return error ? path : whole.lexically_normal().string();
}

}  // namespace

// Ends the run after a signal. Saves a checkpoint first, unless this step is saved already or no
// step was done yet.
Exit Trainer::stop(int64_t step, Exit code) {
  const Group::Phase phase(group_, "checkpoint");  // until it is saved
  const char* by = stopped_by_time() ? "the time limit" : "a signal";
  log::clear_progress();
  profile_.finish();
  report_end(fmt::format("stopped by {} after step {}", by, human_count(step)));
  const bool saves = workdir_ && step > 0;
  if (saves) {
    if (saved_step_ != step) {
      chrono_.settle(step);
      save(step, Save::always);
    }
    skipped_.sync();  // evaluators of this step may have skipped more
    if (checkpointer_) checkpointer_->wait();
    done_step_ = step;
  }
  log_skipped();
  metrics_->close();
  const std::string saved =
      saves ? fmt::format("the checkpoint of step {} is committed", step) : "nothing was saved";
  if (is_rank0()) say_end(result(code, fmt::format("stopped by {}; {}", stop_name(code), saved)));
  if (!saves) {
    log::info("Stopped by {}; nothing was saved", by);
  } else if (is_rank0()) {
    log::info(
        "Stopped by {} at step {}; the checkpoint is committed. Run the same command again to "
        "continue",
        by, step);
  } else {
    log::info("Stopped by {} at step {}", by, step);  // only rank 0 commits the checkpoint
  }
  return code;
}

void Trainer::finish() {
  const Group::Phase phase(group_, "checkpoint");
  log::clear_progress();
  profile_.finish();
  log::write_detail("NOTE: Done!\n" + chrono_.note());
  log_skipped();
  skipped_.sync();
  if (is_rank0()) forget_unused_changes();
  report_end(stopped_early_.empty() ? "all steps done" : stopped_early_);
  metrics_->close();
  if (checkpointer_) checkpointer_->wait();
  if (!is_rank0()) {
    if (options_.cleanup) log::close_file();  // as below
    return;
  }
  say_end(result(Exit::ok, stopped_early_.empty() ? "finished" : stopped_early_));
  if (!workdir_) return;
  workdir_->write_done(done_step_, stopped_early_);
  if (options_.cleanup) {
    log::close_file();  // on NFS, a file that is open keeps a name in its folder
    const std::vector<std::string> left = workdir_->remove();
    if (!left.empty())
      log::warn("{} was not removed because it still holds: {}", workdir_->dir(), join(left, ", "));
  } else {
    log::info("Logs/checkpoints are in {}", workdir_->dir());
  }
}

// Requests the report with the date of the end. A start that has neither trained nor measured
// anything keeps the earlier report, because this start does not know the details of its
// evaluators, such as confusion matrices.
void Trainer::report_end(const std::string& how) {
  const bool measured =
      !metrics_->had_row(first_step_) && metrics_->last_row() >= first_step_;  // in this start
  if (step_ == first_step_ && !measured && workdir_ && file_exists(workdir_->report())) return;
  metrics_->note("Ended", utc_text(std::time(nullptr)) + ", " + how);
  metrics_->write_report();
}

void Trainer::report_failure(Exit code, const std::string& line) noexcept {
  try {
    if (code != Exit::diverged || !metrics_ || !workdir_ || !is_rank0()) return;
    report_end("diverged: " + line);
    // With several ranks the others wait: flush_rows() does the same in a limited time.
    if (group_.size() == 1) metrics_->close();
  } catch (const std::exception& error) {
    log::warn("{}", error.what());
  }
}

void Trainer::record_failure(Exit code, const std::string& line) noexcept {
  try {
    if (!begun_ || !workdir_ || !is_rank0()) return;
    // Waits until a checkpoint in progress is committed. With several ranks, the other ranks could
    // delay this for a long time.
    if (checkpointer_ && group_.size() == 1) checkpointer_->wait();
  } catch (const std::exception& error) {
    log::warn("{}", error.what());
  }
  try {
    workdir_->folder()->require_there();
    write_file_atomically(workdir_->result(), result_json(result(code, line)));
  } catch (const std::exception& error) {
    log::warn("{}", error.what());
  }
}

// Prints the last lines of a run and writes result.json.
void Trainer::say_end(const RunResult& result) const {
  for (const std::string& line : closing_lines(result)) log::info("{}", line);
  if (workdir_) write_file_atomically(workdir_->result(), result_json(result));
}

RunResult Trainer::result(Exit code, const std::string& reason) const {
  RunResult result;
  result.code = code;
  result.reason = reason;
  result.step = done_step_;
  result.total_steps = total_steps_;
  if (metrics_) result.metrics = &metrics_->summary();
  add_process(result);
  result.config_hash = config_hash(recipe_.config.json());
  result.seed = recipe_.seed;
  result.precision = recipe_.precision_choice.name();
  result.precision_config = recipe_.precision_choice.word;
  result.host = host_name();
  result.device = recipe_.device.is_cpu() ? "cpu" : cuda_name(recipe_.device.index());
  result.processes = group_.size();
  result.version = options_.tool_version;
  if (!workdir_) return result;
  result.workdir = absolute(workdir_->dir());
  const bool goes = options_.cleanup && code == Exit::ok;  // the workdir is about to be removed
  if (!goes && file_exists(workdir_->report())) result.report = absolute(workdir_->report());
  for (size_t i = 0; i < recipe_.selection.best.size() && !goes; ++i) {
    const std::string folder = workdir_->ckpt().best(recipe_.selection.best[i].name);
    if (const auto best = read_best(folder)) {
      result.best_checkpoints.push_back({best->metric, best->step, best->value, absolute(folder)});
    } else if (i < watched_.size() && watched_[i].first_step() >= 0 && !watched_[i].best()) {
      result.no_best.push_back({watched_[i].watched().metric, absolute(folder)});
    }
  }
  const std::vector<int64_t> saved = workdir_->ckpt().steps();
  if (!saved.empty()) result.checkpoint = absolute(workdir_->ckpt().step(saved.back()));
  return result;
}

ProcessSoFar Trainer::process() const {
  ProcessSoFar all = options_.before.value_or(ProcessSoFar{
      .first_step = first_step_,
      .program_time = chrono_state_.accum_program_time,
      .train_time = chrono_state_.accum_train_time,
  });
  all.rolled_back = monotonic_seconds();
  all.training_seconds += pace_.training_seconds();
  all.paused_seconds += chrono_.paused_seconds();
  if (!checkpointer_) return all;
  all.failed_saves += checkpointer_->failed_saves();
  all.left_out_saves += checkpointer_->left_out_saves();
  return all;
}

// Adds what concerns the whole process, also the steps before a return to a checkpoint.
void Trainer::add_process(RunResult& result) const {
  const ProcessSoFar all = process();
  result.wall_seconds = monotonic_seconds() - program_start();
  result.started = program_start_utc();
  result.ended = utc_text(std::time(nullptr));
  result.training_seconds = all.training_seconds;
  result.total_wall_seconds = all.program_time + result.wall_seconds;
  result.total_training_seconds = all.train_time + result.training_seconds;
  result.images_per_second = pace_.mean_images_per_second();
  result.first_step = all.first_step;
  result.failed_saves = all.failed_saves;
  result.left_out_saves = all.left_out_saves;
}

void Trainer::flush_rows() {
  if (!metrics_) return;
  std::promise<void> closed;
  const std::future<void> done = closed.get_future();
  std::thread([this, closed = std::move(closed)]() mutable {
    try {
      metrics_->close();
    } catch (const std::exception&) {
      // The process is about to end because of another error.
    }
    closed.set_value();
  }).detach();
  done.wait_for(kFlushTime);
}

}  // namespace bv
