// What a run keeps of a step whose loss or gradients are not finite: the folder
// post-mortem/step-<n>/ of the workdir, from which `bvtrain replay` repeats the step.
#include "lib/ckpt/checkpoint_writer.h"
#include "lib/report/log.h"
#include "lib/train/bad_step.h"
#include "lib/train/trainer/paused_chrono.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/text.h"

namespace bv {

// Returns the batch of a step as all loaders together made it. It is a pure function of the step,
// so this process makes it again: a step may write into its batch, and has only its rank's part.
Example Trainer::batch_of_all_ranks(int64_t step) const {
  LoaderOptions options = recipe_.loader;
  options.rank = 0;
  options.ranks = 1;
  options.prefetch = 1;
  options.pinned = false;
  options.warns = false;
  options.shift = position_ - first_step_ * recipe_.length.batch_size;
  Loader loader(recipe_.data, options);
  for (const std::string& name : skipped_.examples(recipe_.loader.section)) loader.add_failed(name);
  loader.seek(step - 1);
  Example batch;
  for (const auto& [name, values] : loader.next()) batch[name] = values.clone();
  at::Tensor& image = batch.at("image");
  if (image.scalar_type() == at::kByte && recipe_.image_normalization)
    image = normalize(image, *recipe_.image_normalization);
  return batch;
}

// Rank 0 calls this within the step. `before`: the weights are still those before the step. A
// failure is no reason to end a run that may go on.
void Trainer::write_post_mortem(int64_t step, const std::string& why, bool before) {
  const PausedChrono paused(chrono_);
  const std::string folder = workdir_->post_mortem(step);
  try {
    BadStep bad = bad_step(recipe_, step, why, batch_of_all_ranks(step),
                           position_ - first_step_ * recipe_.length.batch_size);
    std::optional<Snapshot> weights;
    if (before && !recipe_.step->sharded()) {
      bad.norms = parameter_lengths(*recipe_.model);
      weights = weights_before(*recipe_.model, step, checkpoint_meta(step - 1));
      int64_t bytes = 0;
      for (const auto& [name, values] : weights->tensors)
        bytes += static_cast<int64_t>(values.nbytes());
      bv::require_room(workdir_->dir(), bytes);
    }
    write_bad_step(folder, bad, weights ? &*weights : nullptr);
    log::info(
        "[{}] the bad step's batch{} are in {}: `bvtrain replay {}` looks into them", step,
        weights ? ", its examples' names and the weights before it" : " and its examples' names",
        folder, weights ? folder : "--workdir " + workdir_->dir());
  } catch (const Error& error) {
    log::warn("[{}] {} could not be written: {}", step, folder, error.what());
  }
}

}  // namespace bv
