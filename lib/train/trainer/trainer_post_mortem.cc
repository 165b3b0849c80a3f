// The folder post-mortem/step-<n>/ of the workdir, in which a run saves a step whose loss or
// gradients are not finite. `bvtrain replay` repeats the step from it.
#include <filesystem>

#include "lib/ckpt/checkpoint_writer.h"
#include "lib/report/log.h"
#include "lib/train/step/bad_step.h"
#include "lib/train/trainer/paused_chrono.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/file.h"

namespace bv {
namespace {

constexpr int64_t kMostFolders = 3;  // of a workdir: each may be as large as half a checkpoint

int64_t folders_in(const std::string& path) {
  std::error_code none;
  const std::filesystem::directory_iterator entries(path, none);
  return std::distance(begin(entries), end(entries));
}

int64_t bytes_of_tensors(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, values] : tensors) bytes += static_cast<int64_t>(values.nbytes());
  return bytes;
}

}  // namespace

// Every rank calls this within the step. The others wait for rank 0: the run may end right
// afterwards, and a rank that exits ends the others too.
void Trainer::keep_bad_step(int64_t step, const std::string& why, bool before) {
  const PausedChrono paused(chrono_);
  const Group::Phase phase(group_, "checkpoint");
  if (is_rank0()) {
    try {
      write_post_mortem(step, why, before);
    } catch (const std::exception& error) {  // a run that can continue does not end because of it
      log::warn("[{}] {} could not be written: {}", step, workdir_->post_mortem(step),
                error.what());
    }
  }
  group_.all_max(std::array{int64_t{0}}, "bad step");
}

// `before`: the weights are still those from before the step.
void Trainer::write_post_mortem(int64_t step, const std::string& why, bool before) {
  workdir_->folder()->require_there();
  const std::string folder = workdir_->post_mortem(step);
  const std::string all = std::filesystem::path(folder).parent_path();
  if (!file_exists(folder) && folders_in(all) >= kMostFolders) {
    log::info("[{}] the bad step is not saved: {} has {} folders already", step, all, kMostFolders);
    return;
  }
  // The step may have overwritten its batch, and has only its rank's part of it. The batch is a
  // pure function of the step, so this process makes all of it again.
  const int64_t shift = position_ - first_step_ * recipe_.length.batch_size;
  const std::string too_large = too_large_to_save(recipe_);
  Example batch;
  if (too_large.empty())
    batch = whole_batch(recipe_, step, shift, skipped_.examples(recipe_.loader.section));
  BadStep bad = bad_step(recipe_, step, why, std::move(batch), shift);
  bad.batch_left_out = too_large;
  int64_t bytes = bytes_of_tensors(bad.batch);
  std::optional<Snapshot> weights;
  if (before && !recipe_.step->sharded()) {
    bad.norms = parameter_norms(*recipe_.model);
    weights = weights_before(*recipe_.model, step, checkpoint_meta(step - 1));
    bytes += bytes_of_tensors(weights->tensors);
  }
  // The next checkpoint also needs room.
  bv::require_room(workdir_->dir(), bytes + recipe_.step->state_bytes());
  write_bad_step(folder, bad, weights ? &*weights : nullptr);
  const std::string command = weights ? folder : "--workdir " + workdir_->dir();
  const char* with =
      weights ? ", its examples' names and the weights before it" : " and its examples' names";
  // Without the weights a replay starts from the newest checkpoint. If the run goes on, that will
  // be one after this step.
  const int64_t earlier =
      recipe_.nan_rolls_back ? std::ssize(earlier_.rollbacks) : skipped_steps_;  // such steps
  const bool goes_on = before && recipe_.nan_limit && earlier < *recipe_.nan_limit;
  if (!weights && (goes_on || workdir_->ckpt().steps().empty())) {
    log::info("[{}] the bad step's {} are in {}; {}", step,
              too_large.empty()
                  ? std::string("batch") + with
                  : fmt::format("examples' names, but not its batch ({}),", too_large),
              folder,
              goes_on ? "the weights before it are not, because the state is sharded"
                      : "there is no checkpoint yet from which `bvtrain replay` could repeat it");
    return;
  }
  if (!too_large.empty()) {
    log::info(
        "[{}] the names of the bad step's examples{} are in {}, but not its batch ({}): `bvtrain "
        "replay {}` reads it again",
        step, weights ? " and the weights before it" : "", folder, too_large, command);
    return;
  }
  log::info("[{}] the bad step's batch{} are in {}: `bvtrain replay {}` analyses them", step, with,
            folder, command);
}

}  // namespace bv
