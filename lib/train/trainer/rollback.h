// What `nan: rollback` has left out of the stream of training examples. run.json lists it, and a
// checkpoint records how many entries of the list apply to it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "lib/ckpt/restored.h"

namespace bv {

// Returns how many examples a run leaves out after this checkpoint. `rollbacks` is the list of
// run.json.
int64_t examples_left_out(const nlohmann::json& rollbacks, const Restored& from);

}  // namespace bv
