#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/distributed/group.h"
#include "lib/model/unit_hooks.h"

namespace bv {

// Activations of a model by name: "pre_logits", "encoder/block00/+sa".
using Features = std::map<std::string, at::Tensor>;

// The type in which matmuls and convolutions compute. Everything else is float32.
enum class Precision { float32, bf16 };

// The arguments of one call of Model::forward(), and what the call reports back.
struct Pass {
  bool train = false;
  Precision precision = Precision::float32;

  // If set, forward() stores named activations here: all of them, or only those in `wanted`.
  Features* features = nullptr;
  const std::vector<std::string>* wanted = nullptr;

  // Dropout is a pure function of these: the mask of the k-th dropout of a pass depends on
  // (seed, step, k) and on each element's place in the whole batch.
  uint64_t seed = 0;
  int64_t step = 0;
  int next_dropout = 0;  // k of the next dropout

  // If several ranks share a batch: the place of this rank's first example in the whole batch.
  int64_t first_example = 0;
  // The ranks that share the batch; never null. Batch norm takes its statistics over all of them.
  Group* group = &Group::single();
  UnitHooks* units = nullptr;  // set by UnitScope

  // If set, dense, convolution and attention layers add their multiply-accumulates to it.
  double* macs = nullptr;

  // Prepares the pass for the next part of the same batch (gradient accumulation). n is the number
  // of examples in the part before.
  void next_part(int64_t n) {
    first_example += n;
    next_dropout = 0;
    if (units) units->begin();
  }
  // Returns true if forward() should compute and keep the activation `name`.
  bool wants(std::string_view name) const {
    return features &&
           (!wanted || std::find(wanted->begin(), wanted->end(), name) != wanted->end());
  }
  // Stores `value` as the activation `name` if it is wanted.
  void keep(const char* name, const at::Tensor& value) {
    if (wants(name)) (*features)[name] = value;
  }
  // Models call these around each of their units (Model::units()).
  void enter(int unit, const at::Tensor& x) const {
    if (units) units->enter(unit, x);
  }
  void leave(int unit, const at::Tensor& y) const {
    if (units) units->leave(unit, y);
  }
};

}  // namespace bv
