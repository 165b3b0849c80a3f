// The outputs of a model and the labels of a whole data set, for metrics that need all of them at
// once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "lib/evals/common/eval_input.h"
#include "lib/evals/evaluator.h"

namespace bv {

// In the order of the data, on rank 0; undefined tensors on the other ranks.
struct Collected {
  at::Tensor outputs;  // (n, k) float32, finite
  at::Tensor labels;   // (n, ...), of the type that labels_of() returns
  at::Tensor places;   // (n) int64, in the data
  int64_t size = 0;    // n, on every rank
};

// The labels of a batch: the rows that count, and their labels.
struct CollectedRows {
  at::Tensor rows;    // (m) int64, places in the batch
  at::Tensor labels;  // (m, ...), any type, of the same shape in each batch
};

// Runs the model over the data once. labels_of(batch, outputs) gets the "logits" (b, k) float32 of
// a batch and returns the rows that count; rows that "_mask" masks out must not be among them. All
// ranks call this. All outputs are in memory at once: 4 n k bytes on rank 0, twice that while they
// are gathered. Throws Error(Exit::diverged) on every rank, with the first example, if an output
// that counts is NaN or infinite, and Error(Exit::usage) if no example counts.
Collected collect_outputs(
    EvalInput& input, const EvalContext& context, const std::string& evaluator,
    const std::function<CollectedRows(const Batch& batch, const at::Tensor& outputs)>& labels_of);

inline constexpr int64_t kNoPlace = std::numeric_limits<int64_t>::max();

// Returns the place of the first example with a number that is NaN or infinite, kNoPlace if there
// is none. outputs: (n, k); places: (n) int64, in the data.
int64_t first_bad(const at::Tensor& outputs, const at::Tensor& places);
// Throws Error(Exit::diverged) on every rank if a rank gives a place, with the first one. All ranks
// call this.
void refuse_bad(int64_t place, EvalInput& input, Group& group, const std::string& evaluator);

// Gives all ranks rank 0's values.
void share_values(Group& group, std::vector<double>& values);

}  // namespace bv
