// Checks of the state that a run starts from, before it starts: the workdir's own checkpoint, else
// `resume`, else `model_init`. The start itself is in trainer_start.cc.
#pragma once

#include <string>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir.h"
#include "lib/train/recipe.h"

namespace bv {

// Reads the headers of the files that `resume` and `model_init` name, before a model is built.
// Records what is wrong with them among the problems of the config.
void peek_start(const Config& config);

// Throws Error(Exit::usage) if the checkpoint is past the last step.
void check_step(const Restored& from, int64_t total_steps);

// Reads what the run would start from and compares it with a recipe on the meta device. `workdir`
// may be null. Writes nothing. Returns what was found, such as "model_init f.npz: all arrays fit".
// Throws the Error(Exit::usage) that the start would throw.
std::string check_start(const Recipe& shapes, const Workdir* workdir);

}  // namespace bv
