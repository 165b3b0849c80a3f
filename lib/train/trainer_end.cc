// What a run has left out because it cannot be read; and its end: after the last step, after a
// signal, or because of an error.
#include <chrono>
#include <future>
#include <thread>

#include "lib/report/log.h"
#include "lib/train/trainer.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::chrono::seconds kFlushTime{2};

}  // namespace

const Batch& Trainer::next_batch(int64_t step) {
  try {
    const Batch& batch = loader_->next();
    failed_now_ = loader_->take_failed();
    return batch;
  } catch (const Error&) {
    // The other ranks do not wait for this one, and what they have left out in this step is lost.
    if (group_.size() == 1) list_skipped(step, loader_->take_failed());
    throw;
  }
}

// Lists training examples that the ranks have left out. Several ranks may meet the same broken
// example, and each loader checks only what its own rank has met.
void Trainer::list_skipped(int64_t step, const std::vector<FailedExample>& failed) {
  const std::string& data = recipe_.loader.section;
  const int64_t budget = recipe_.loader.error_budget;
  for (const auto& [index, name, reason] : failed) {
    loader_->add_failed(name);
    if (skipped_.count(data) >= budget && !skipped_.contains(data, name)) {
      throw Error::in(
          "input", Exit::data,
          fmt::format("{}: {} ({} examples failed on all ranks together; {}.skip_errors allows {})",
                      name, reason, budget + 1, data, budget));
    }
    skipped_.add({data, step, name, reason});
  }
  metrics_->skipped(skipped_.summaries());
}

// Rows have this metric if examples may be left out, so that all rows of a run have the same ones.
void Trainer::measure_skipped() {
  if (recipe_.loader.error_budget == 0) return;
  const int64_t count = skipped_.count(recipe_.loader.section);
  metrics_->measure("input/errors", static_cast<double>(count));
}

void Trainer::log_skipped_in_epoch(int64_t step) const {
  const auto epochs = [this](int64_t steps) {
    return steps * recipe_.length.batch_size / recipe_.length.data_size;
  };
  if (epochs(step) > epochs(step - 1) && !skipped_.empty())
    log::info("Epoch {}: {}", epochs(step), skipped_.text());
}

void Trainer::log_skipped() const {
  if (is_rank0() && !skipped_.empty()) log::info("{}", skipped_.text());
}

// Ends the run after a signal. Saves a checkpoint first, unless this step is saved already or no
// step was done yet.
Exit Trainer::stop(int64_t step, Exit code) {
  const Group::Phase phase(group_, "checkpoint");  // until it is saved
  log::clear_progress();
  profile_.finish();
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
  log_skipped();
  metrics_->close();
  return code;
}

void Trainer::finish() {
  const Group::Phase phase(group_, "checkpoint");
  log::clear_progress();
  profile_.finish();
  log::note("Done!\n{}", chrono_.note());
  log_skipped();
  skipped_.sync();
  metrics_->write_report();
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
