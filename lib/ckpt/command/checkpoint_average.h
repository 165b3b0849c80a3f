// The mean of the weights of several checkpoints of a run: what `bvtrain ckpt average` writes.
#pragma once

#include <string>
#include <vector>

#include "lib/ckpt/restored.h"

namespace bv {

// Returns the checkpoint in the last of `folders`, with its parameters and buffers replaced by the
// means over all of them; a regression's target scale stays, which must be the same in all. With
// `ema` the averaged weights are also read, and their means returned.
//
// The values are summed in float64 in the order of `folders`; the means have the dtype of the
// tensor. Tensors of integers and bools are those of the last checkpoint. The state of the
// optimizer is not read. Throws Error(Exit::usage) if a checkpoint cannot be read, has other
// tensors, shapes or dtypes than the first one, or another scale of a regression's targets.
Restored average_checkpoints(const std::vector<std::string>& folders, bool ema);

}  // namespace bv
