// `bvtrain replay FOLDER`: computes a bad step again from the folder that the run has left for it.
#pragma once

#include <string>

#include "lib/train/step/bad_step.h"

namespace bv {

// Reads the weights and the batch of `folder` (Workdir::post_mortem()) and computes the step in
// float32 on the CPU. Needs neither the data nor the checkpoints of the run, except that it reads
// the examples of a batch that was too large to save. Throws Error(Exit::usage) if the folder holds
// no weights, if a file in it is damaged, or if the data have other examples now.
BadStep replay_step(const std::string& folder);

}  // namespace bv
