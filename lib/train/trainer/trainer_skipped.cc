// The training examples and the steps that a run skips, and where it is in its stream of examples.
#include "lib/report/log.h"
#include "lib/train/trainer/trainer.h"

namespace bv {

const Batch& Trainer::next_batch(int64_t step) {
  try {
    const Batch& batch = loader_->next();
    failed_now_ = loader_->take_failed();
    return batch;
  } catch (const Error&) {
    // With several ranks, the others do not wait for this one, and the examples skipped in this
    // step are not listed.
    if (group_.size() == 1) list_skipped(step, loader_->take_failed());
    throw;
  }
}

// Logs a step that was skipped because of `nan: skip`. Throws Error(Exit::diverged) if there were
// too many.
void Trainer::count_skipped_step(int64_t step) {
  const int64_t limit = recipe_.nan_limit.value();
  const std::string& why = recipe_.step->skipped();
  if (++skipped_steps_ > limit) {
    throw Error::in("train", Exit::diverged,
                    fmt::format("step {}: {}; {} steps were skipped before, as many as nan_limit "
                                "allows",
                                step, why, limit));
  }
  if (is_rank0())
    log::warn("[{}] the step is skipped: {} ({} of at most {})", step, why, skipped_steps_, limit);
}

// Lists training examples that the ranks have skipped. Several ranks may encounter the same broken
// example, and each loader checks only those of its own rank.
void Trainer::list_skipped(int64_t step, const std::vector<FailedExample>& failed) {
  const std::string& data = recipe_.loader.section;
  const int64_t budget = recipe_.loader.error_budget;
  for (const auto& [index, name, reason, files] : failed) {
    loader_->add_failed(name);
    if (skipped_.count(data) >= budget && !skipped_.contains(data, name)) {
      throw Error::in(
          "input", Exit::data,
          fmt::format("{}: {} ({} examples failed on all ranks together; {}.skip_errors allows {})",
                      name, reason, budget + 1, data, budget));
    }
    skipped_.add({data, step, name, reason, files});
  }
  metrics_->skipped(skipped_.summaries());
}

// Measured whenever examples may be skipped, so that all rows of a run have the same metrics.
void Trainer::measure_skipped() {
  if (recipe_.loader.error_budget == 0) return;
  const int64_t count = skipped_.count(recipe_.loader.section);
  metrics_->measure("input/errors", static_cast<double>(count));
}

// For a mixture: the number of passes over each data set so far.
void Trainer::measure_epochs_of_parts(int64_t step) {
  const TrainingData& data = *recipe_.data;
  if (!data.is_mixture() || !is_rank0()) return;
  const std::vector<int64_t> examples =
      data.examples_of_parts(position_after(step), recipe_.loader.seed);
  for (size_t i = 0; i < examples.size(); ++i) {
    const TrainingData::Part& part = data.parts()[i];
    metrics_->measure("input/epoch/" + part.name,
                      static_cast<double>(examples[i]) / static_cast<double>(part.data->size()));
  }
}

// Returns the stream position of the first example of step + 1.
int64_t Trainer::position_after(int64_t step) const {
  return position_ + (step - first_step_) * recipe_.length.batch_size;
}

void Trainer::log_skipped_in_epoch(int64_t step) const {
  const auto epochs = [this](int64_t steps) {
    return position_after(steps) / recipe_.length.data_size;
  };
  if (epochs(step) > epochs(step - 1) && !skipped_.empty())
    log::info("Epoch {}: {}", epochs(step), skipped_.text());
}

void Trainer::log_skipped() const {
  if (is_rank0() && !skipped_.empty()) log::info("{}", skipped_.text());
}

}  // namespace bv
