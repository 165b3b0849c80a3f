// The measurement behind `bvtrain bench operators`: what the operators of a training step compute
// and move, and the minimum time that a GPU needs for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/device/operator_record.h"
#include "lib/train/recipe.h"

namespace bv {

// Trains two steps and returns the calls of the second one: those of forward and backward in order,
// those of the update sorted, and the fused update as one more call. If the model's steps differ,
// it trains the largest one (Model::fix_largest_step()). On a CPU call use_plain_kernels() first:
// OperatorRecorder does not see bvtrain's kernels there.
std::vector<OperatorCall> operators_of_step(Recipe& recipe);

// Extrapolates the calls of a step with `batch` examples from those of two smaller batches. It
// assumes that the FLOPs and bytes of a call are linear in the batch size; those of the optimizer's
// update do not depend on it. A call is listed if it is listed in one of the two steps. Throws
// Error(Exit::usage) if the two steps do not make the same calls, apart from those of the update.
std::vector<OperatorCall> scale_to_batch(const std::vector<OperatorCall>& small,
                                         int64_t small_batch,
                                         const std::vector<OperatorCall>& large,
                                         int64_t large_batch, int64_t batch);

// All calls of one operator in a step.
struct OperatorSum {
  std::string name;
  double calls = 0, flops = 0, bytes = 0;
  double seconds = 0;  // the minimum time, with the peaks below
};

// Sums the listed calls of each operator. The operator that takes longest is first. A call takes at
// least the time of its FLOPs and the time of its bytes at the peaks (peak_flops(),
// peak_bandwidth()): the roofline model of Williams, Waterman and Patterson (2009).
std::vector<OperatorSum> roofline(const std::vector<OperatorCall>& calls, double flops_per_second,
                                  double bytes_per_second);

// Returns the calls of a step of `batch` examples. Above 4 times `granule` examples, runs steps of
// 2 and 4 times `granule` only, and extrapolates. `recipe_of` builds the run for a batch size.
std::vector<OperatorCall> operators_of_batch(
    const std::function<std::unique_ptr<Recipe>(int64_t)>& recipe_of, int64_t granule,
    int64_t batch);

}  // namespace bv
