// Compares two checkpoints: their configs and their tensors.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/ckpt/restored.h"
#include "lib/config/changes.h"

namespace bv {

// Two tensors of the same dtype and shape that differ in at least one bit.
struct TensorDifference {
  std::string name;
  double relative = 0;  // |b - a| / |a|, L2 norms in float64; infinite if a is zero and b is not
  double max_abs = 0;   // the largest |b - a| of an element
};

struct CheckpointDiff {
  struct OtherForm {
    std::string name, a, b;  // a and b: "float32 (3, 4)"
  };

  std::vector<ConfigChange> config;         // from a to b
  std::vector<std::string> only_a, only_b;  // tensors
  std::vector<OtherForm> other_form;        // tensors whose dtypes or shapes differ
  std::vector<TensorDifference> changed;    // by descending relative difference, NaN first
  size_t tensors = 0;                       // in a, b or both

  size_t differing() const {
    return only_a.size() + only_b.size() + other_form.size() + changed.size();
  }
};

// Compares two checkpoints that were read whole. A tensor counts as equal if all its bits are: a
// NaN equals itself, and 0 and -0 differ. Throws Error(Exit::usage) if a config cannot be read.
CheckpointDiff diff_checkpoints(const Restored& a, const Restored& b);

}  // namespace bv
