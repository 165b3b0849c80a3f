// The number of attention heads of weights of timm and Hugging Face. Their arrays have the same
// shapes whatever that number is. A model with a different number of heads would load them silently
// and compute nonsense.
#pragma once

#include <cstdint>
#include <string>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/tensors.h"

namespace bv {

// Returns the recorded number of heads of the weights at `path`, as stored_arguments(), which
// throws. Returns 0 if none is recorded.
int64_t stored_heads(const std::string& path);

// Throws Error(Exit::usage) at `path` if `stored`, what stored_heads() has returned, does not
// divide `width`, the number of features of all heads. No model could have such a number of heads.
void require_whole_heads(int64_t stored, int64_t width, const std::string& path);

// Compares the number of heads of `file`, the weights at `path` by the names of their program, with
// that of a model with the parameters `wanted`. Throws Error(Exit::usage) if another number is
// recorded, and as require_whole_heads(). If none is recorded, warns of a number that published
// models of this width do not have. Does nothing for big_vision's names, whose arrays show the
// number.
void check_heads(const NamedTensors& file, const Shapes& wanted, const std::string& path);

}  // namespace bv
