#include "lib/train/trainer/replay.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/device/compute_threads.h"
#include "lib/report/log.h"
#include "lib/train/recipe.h"
#include "lib/train/start.h"
#include "lib/train/trainer/rollback.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

constexpr int64_t kTold = 1000;  // steps between two log lines

// Returns the run's config with `nan: skip`, so that a bad step changes nothing and is reported.
Config config_of(const Restored& checkpoint, std::vector<Override> overrides) {
  const auto precision = checkpoint.meta.value("precision", std::string());
  if (!precision.empty())
    overrides.insert(overrides.begin(), {"precision", precision, "the checkpoint"});
  overrides.push_back({"nan", "skip", "replay"});
  return parse_config_json(run_config(checkpoint), checkpoint.folder + "/" + kManifestName,
                           overrides);
}

// The run, trained again.
class Rerun {
 public:
  Rerun(const Restored& from, const nlohmann::json& rollbacks,
        const std::vector<Override>& overrides)
      : config_(config_of(from, overrides)),
        recipe_(config_, from.meta.value("synthetic", false), /*meta=*/false, Group::single(),
                c10::kCPU, from.meta.value("ranks", 1), classes_of(from)),
        step_(from.step),
        meta_(from.meta),
        mixup_(read_mixup(config_)),
        ranks_(from.meta.value("ranks", 1)) {
    recipe_.step->load_state(from.tensors, from.folder);
    start_compute_threads(from.meta.value("compute_threads", recipe_.compute_threads));
    const int64_t batch = recipe_.length.batch_size;
    const int64_t position =
        from.meta.value("position", step_ * batch) + examples_left_out(rollbacks, from);
    recipe_.step->repeat_ranks(ranks_);
    if (ranks_ > 1 && recipe_.model->has_batch_statistics() && recipe_.grad_accum_steps > 1) {
      log::warn(
          "grad_accum_steps: each micro-batch of the run held examples of all {} processes, but a "
          "replay takes other examples together, so batch norm has other statistics, and the "
          "replay may find another step",
          ranks_);
    }
    LoaderOptions options = recipe_.loader;
    options.shift = shift_ = position - step_ * batch;
    loader_ = std::make_unique<Loader>(recipe_.data, options);
    loader_->seek(step_);
  }

  int64_t total_steps() const { return recipe_.length.total_steps; }
  int64_t step() const { return step_; }

  // Computes the next step. Returns what is wrong with it, if anything.
  std::optional<BadStep> advance() {
    Example batch = copy_of(loader_->next());
    ++step_;
    // `nan: skip` keeps the weights only if the loss or a gradient is bad, not if the update is.
    weights_ = weights_before(*recipe_.model, step_, meta_);
    recipe_.step->run(step_, copy_of(batch), /*measure=*/false);  // it may overwrite its batch
    std::string reason = recipe_.step->skipped();
    const std::string& after = recipe_.step->non_finite();
    const bool update = reason.empty() && !after.empty();
    if (update) {
      reason = after + " is not finite, but the loss and the gradients are";
      restore_weights();
    }
    if (reason.empty()) return std::nullopt;
    BadStep bad = bad_step(recipe_, step_, std::move(reason), std::move(batch), shift_);
    bad.update = update;
    bad.norms = parameter_norms(*recipe_.model);
    bad.float32 =
        diagnose(*recipe_.model, *recipe_.task, bad.batch, mixup_, recipe_.seed, step_, ranks_);
    return bad;
  }

  // The weights before the step that advance() has found.
  Snapshot weights() { return std::move(weights_); }

 private:
  void restore_weights() {
    const c10::AutoGradMode no_grad(false);
    for (auto& [name, values] : named_parameters(*recipe_.model))
      values.copy_(weights_.tensors.at("params/" + name));
    for (auto& [name, values] : named_buffers(*recipe_.model))
      values.copy_(weights_.tensors.at("buffers/" + name));
  }

  const Config config_;
  Recipe recipe_;
  int64_t step_, shift_ = 0;
  const nlohmann::json meta_;  // of the checkpoint
  const MixupConfig mixup_;
  const int ranks_;
  std::unique_ptr<Loader> loader_;
  Snapshot weights_;
};

// Returns the last step of the run: an earlier one than `total_steps` if `early_stop` has ended it.
int64_t last_step(const Workdir& workdir, int64_t total_steps) {
  const std::optional<Workdir::Done> done = finished_at(workdir);
  return done && !done->early.empty() ? std::min(done->step, total_steps) : total_steps;
}

}  // namespace

Replay replay(const Workdir& workdir, const std::vector<Override>& overrides, int64_t most_steps) {
  const auto checkpoint = Checkpointer::latest(workdir, {.resumes = true});
  if (!checkpoint)
    throw Error(Exit::usage, workdir.dir(),
                "has no checkpoint from which the run could be repeated");
  Rerun rerun(*checkpoint, peek_rollbacks(workdir.run_json()), overrides);
  Replay result;
  result.first_step = checkpoint->step;
  const int64_t last = last_step(workdir, rerun.total_steps());
  const int64_t end = most_steps > 0 ? std::min(last, checkpoint->step + most_steps) : last;
  if (checkpoint->step >= end)
    throw Error(
        Exit::usage, workdir.dir(),
        fmt::format(
            "its newest checkpoint belongs to the last step, {}: there is nothing to repeat",
            checkpoint->step));
  log::info("Repeating {} from step {} to step {}", workdir.dir(), checkpoint->step, end);
  while (rerun.step() < end && !result.bad) {
    result.bad = rerun.advance();
    if (result.bad) result.weights = rerun.weights();
    if (rerun.step() % kTold == 0) log::info("step {} is good", rerun.step());
    poll_signals();
  }
  result.last_step = rerun.step();
  return result;
}

}  // namespace bv
