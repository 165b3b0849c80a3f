// `bvtrain replay FOLDER`: computes a bad step again from the folder that the run has left for it.
#pragma once

#include <string>

#include "lib/train/bad_step.h"

namespace bv {

// Reads the weights and the batch of `folder` (Workdir::post_mortem()) and computes the step in
// float32 on the CPU. Needs neither the data nor the checkpoints of the run. Throws
// Error(Exit::usage) if the folder holds no weights, or if a file in it is damaged.
BadStep replay_step(const std::string& folder);

}  // namespace bv
