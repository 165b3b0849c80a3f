#include "lib/train/start.h"

#include "lib/ckpt/weights_file.h"
#include "lib/train/weights.h"

namespace bv {
namespace {

// Compares a checkpoint with the state that the recipe's step would have. Returns what was found.
std::string check_checkpoint(const Recipe& shapes, const Restored& from) {
  StepConfig options = read_step(shapes.config, *shapes.model, shapes.length);
  TrainStep step(*shapes.model, *shapes.task, std::move(options), shapes.seed, shapes.precision);
  step.load_state(from.tensors, from.folder);
  check_step(from, shapes.length.total_steps);
  return fmt::format("{}: the checkpoint of step {} fits", from.folder, from.step);
}

}  // namespace

void peek_start(const Config& config) {
  for (const char* key : {"resume", "model_init"}) {
    attempt(config, [&] {
      if (const auto path = config.get(key, ""); !path.empty()) peek_weights(path);
    });
  }
}

void check_step(const Restored& from, int64_t total_steps) {
  if (from.step <= total_steps) return;
  throw Error(Exit::usage, from.folder,
              fmt::format("this checkpoint is at step {}, after the {} steps of this run",
                          from.step, total_steps));
}

std::string check_start(const Recipe& shapes, const Workdir* workdir) {
  if (workdir) {
    if (const auto found = Checkpointer::latest(*workdir)) return check_checkpoint(shapes, *found);
  }
  const StartFrom& from = shapes.start;
  if (!from.resume.empty()) {
    if (is_checkpoint(from.resume))
      return "resume " + check_checkpoint(shapes, Checkpointer::load(from.resume));
    load_weights(from.resume, *shapes.model, {});
    return fmt::format("resume {}: all arrays fit (parameters only)", from.resume);
  }
  if (from.model_init.empty()) return "from scratch";
  load_weights(from.model_init, *shapes.model, from.dont_load.patterns,
               from.dont_load.place.text());
  return fmt::format("model_init {}: all arrays fit", from.model_init);
}

}  // namespace bv
