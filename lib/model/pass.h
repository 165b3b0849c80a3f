// Pass: what Model::forward() must know besides the images, such as the precision and the place of
// the examples in the batch, and where it leaves the activations that a caller wants. A training
// step uses one Pass for all of its micro-batches (the equal parts of a rank's examples that it
// computes one after the other) and calls next_micro_batch() in between. An evaluator makes a Pass
// for each batch.
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

// The type in which matmuls and convolutions compute. Activations between them have it too, except
// that residual streams are float32 (not in resnet_cifar, nor in a vit with dtype_mm: bfloat16).
// Logits and the statistics of norms are float32.
enum class Precision { float32, bf16 };

struct Pass {
  bool train = false;
  Precision precision = Precision::float32;

  // If set, forward() stores activations here: all of them, or only those that `wanted` names.
  Features* features = nullptr;
  const std::vector<std::string>* wanted = nullptr;
  std::vector<std::string>* order = nullptr;  // if set, gets their names as they are computed

  // Dropout is a pure function of these: the mask of the k-th dropout of a pass depends on
  // (seed, step, k) and on each element's place in the whole batch.
  uint64_t seed = 0;
  int64_t step = 0;
  int next_dropout = 0;  // k of the next dropout
  // If defined, this () int64 tensor on the model's device holds the step in place of `step`.
  // Kernels of a graph that is replayed read the new step from it (lib/train/step/step_graph.h).
  at::Tensor device_step;

  // The place of forward()'s first example in the whole batch, which several ranks may share. It
  // advances with each micro-batch.
  int64_t first_example = 0;
  // The ranks that share the batch; never null. Batch norm takes its statistics over all of them.
  Group* group = &Group::single();
  UnitHooks* hooks = nullptr;  // the model's hooks; set by UnitScope

  // If set, dense, convolution and attention layers add their multiply-accumulates to it.
  double* macs = nullptr;

  // Prepares for the next micro-batch of the same batch (gradient accumulation). n is the number of
  // examples in the micro-batch before.
  void next_micro_batch(int64_t n) {
    first_example += n;
    next_dropout = 0;
    if (hooks) hooks->begin();
  }
  // Returns true if forward() should compute and keep the activation `name`.
  bool wants(std::string_view name) const {
    return features &&
           (!wanted || std::find(wanted->begin(), wanted->end(), name) != wanted->end());
  }
  // Stores `value` as the activation `name` if it is wanted.
  void keep(const char* name, const at::Tensor& value) {
    if (!wants(name)) return;
    (*features)[name] = value;
    if (order) order->emplace_back(name);
  }
  // Models call these around each of their units (Model::units()).
  void enter(int unit, const at::Tensor& x) const {
    if (hooks) hooks->enter(unit, x);
  }
  void leave(int unit, const at::Tensor& y) const {
    if (hooks) hooks->leave(unit, y);
  }
};

}  // namespace bv
