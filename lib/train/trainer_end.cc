// The end of a run: after its last step, after a signal, or because of an error.
#include <chrono>
#include <ctime>
#include <future>
#include <thread>

#include "lib/report/log.h"
#include "lib/train/trainer.h"
#include "lib/util/host.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::chrono::seconds kFlushTime{2};

}  // namespace

// Ends the run after a signal. Saves a checkpoint first, unless this step is saved already or no
// step was done yet.
Exit Trainer::stop(int64_t step, Exit code) {
  const Group::Phase phase(group_, "checkpoint");  // until it is saved
  log::clear_progress();
  profile_.finish();
  report_end(fmt::format("stopped by a signal after step {}", human_count(step)));
  if (workdir_ && step > 0) {
    if (saved_step_ != step) save(step, false);
    if (checkpointer_) checkpointer_->wait();
    if (is_rank0()) {
      log::info(
          "Stopped by a signal at step {}; the checkpoint is committed. Run the same command again "
          "to continue",
          step);
    } else {
      log::info("Stopped by a signal at step {}", step);  // only rank 0 commits the checkpoint
    }
  } else {
    log::info("Stopped by a signal; nothing was saved");
  }
  metrics_->close();
  return code;
}

void Trainer::finish() {
  const Group::Phase phase(group_, "checkpoint");
  log::clear_progress();
  profile_.finish();
  log::note("Done!\n{}", chrono_.note());
  report_end("all steps done");
  metrics_->close();
  if (checkpointer_) checkpointer_->wait();
  if (!workdir_ || !is_rank0()) return;
  workdir_->write_done(total_steps_);
  if (options_.cleanup) {
    const std::vector<std::string> left = workdir_->remove();
    if (!left.empty())
      log::warn("{} was not removed because it holds other files: {}", workdir_->dir(),
                join(left, ", "));
  } else {
    log::info("Logs/checkpoints are in {}", workdir_->dir());
  }
}

// Has the report written with the date of the end.
void Trainer::report_end(const std::string& how) {
  metrics_->note("Ended", utc_text(std::time(nullptr)) + ", " + how);
  metrics_->write_report();
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
