// A checkpoint that was read, and what its reader requests.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/ckpt/pieces.h"
#include "lib/ckpt/tensors.h"

namespace bv {

struct Restored {
  int64_t step = 0;
  std::string folder;
  NamedTensors tensors;
  nlohmann::json meta;
  // With ShardedAs::pieces: the sharded tensors, and those of which only a range was wanted.
  PiecedTensors pieced = {};
  bool keep = false;  // Manifest::keep
};

// Returns the config of the run that has written the checkpoint, as JSON. Throws
// Error(Exit::usage) if the checkpoint has none.
std::string run_config(const Restored& checkpoint);

// How sharded tensors are returned: assembled in memory, in Restored::tensors, or as the pieces
// that the files hold, in Restored::pieced.
enum class ShardedAs { whole, pieces };

// Elements [begin, end) of a tensor, in the order in which its strides lay them out in memory.
struct ElementRange {
  int64_t begin = 0, end = 0;
};

// Returns which elements of the tensor `name` the caller needs. The checkpoint holds it with this
// shape and these strides.
using Wanted =
    std::function<ElementRange(const std::string& name, const std::vector<int64_t>& shape,
                               const std::vector<int64_t>& strides)>;

// A Wanted for the weights alone: parameters, buffers and averages, but not the optimizer's state,
// which takes as much memory or more.
inline ElementRange weights_only(const std::string& name, const std::vector<int64_t>&,
                                 const std::vector<int64_t>&) {
  return {0, name.starts_with("opt/") ? 0 : INT64_MAX};
}

// The same without averages, which take as much memory as the parameters.
inline ElementRange weights_without_averages(const std::string& name, const std::vector<int64_t>&,
                                             const std::vector<int64_t>&) {
  return {0, name.starts_with("opt/") || name.starts_with("ema/") ? 0 : INT64_MAX};
}

// Returns weights_only if averages are wanted too, otherwise weights_without_averages.
inline Wanted wanted_weights(bool averages) {
  return averages ? weights_only : weights_without_averages;
}

struct ReadOptions {
  ShardedAs sharded = ShardedAs::whole;
  // Null: everything is read. With ShardedAs::whole, tensors are read as a whole or not at all.
  Wanted wanted = nullptr;
  // Whether a run will continue from the checkpoint. If so, a checkpoint without the metadata that
  // the run needs is an error.
  bool resumes = false;
};

}  // namespace bv
