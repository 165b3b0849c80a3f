// The training state that becomes a checkpoint, and the ranks that write it.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/ckpt/pieces.h"
#include "lib/ckpt/tensors.h"

namespace bv {

// The training state at the end of a step. Its values must be finite: a checkpoint of a diverged
// run would displace good ones.
struct Snapshot {
  int64_t step = 0;
  NamedTensors tensors;  // on the CPU; nobody may write to them until they are saved
  // Waits until the tensors hold their values, which may still be on the way from a GPU. Null: the
  // values are there.
  std::function<void()> await_values = nullptr;
  // What is not a tensor: class names, pp, config, metrics of a partial row.
  nlohmann::json meta = {};
  PiecedTensors pieced = {};  // this rank's pieces of the sharded tensors
  // Waits until everything that the run has written outside the checkpoint up to this step is on
  // disk. A run that continues from the checkpoint could not write it again. Null: there is nothing
  // to wait for.
  std::function<void()> before_commit = nullptr;
};

// The ranks that write a checkpoint together.
struct Writers {
  int rank = 0, ranks = 1;
  std::string id = {};     // of this start of the job: letters and digits, equal on all ranks
  double patience = 1800;  // seconds that rank 0 waits for the part files of all others
  // Called before each try to write, which creates missing folders; may throw. Null: not called.
  std::function<void()> before_try = nullptr;
};

}  // namespace bv
