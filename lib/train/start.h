// Where a run starts from: its workdir's own checkpoint, else `resume`, else `model_init`
// (reference 5.3). What is looked at beforehand.
#pragma once

#include <string>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir.h"
#include "lib/train/recipe.h"

namespace bv {

// A first look at the files of `resume` and `model_init`, before a model is built. What is wrong
// with them is recorded among the config's problems.
void peek_start(const Config& config);

// Throws Error(Exit::usage) where the checkpoint is past the last step.
void check_step(const Restored& from, int64_t total_steps);

// Reads what the run would start from and compares it with a recipe on the meta device. `workdir`
// may be null; nothing is written. Returns what was found: "model_init f.npz: all arrays fit".
// Throws Error(Exit::usage) as the start would.
std::string check_start(const Recipe& shapes, const Workdir* workdir);

}  // namespace bv
