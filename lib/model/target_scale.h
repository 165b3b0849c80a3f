// The mean and standard deviation of each target of a regression (task `regress`). A model learns
// (target - mean) / std, and its outputs become values in the units of the targets by
// output * std + mean. Both are buffers of the model, "targets/mean" and "targets/std", so that
// checkpoints have them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/model.h"

namespace bv {

struct TargetScale {
  at::Tensor mean, std;  // (targets) float32, the buffers themselves
};

inline constexpr const char* kTargetMean = "targets/mean";
inline constexpr const char* kTargetStd = "targets/std";

// Adds the buffers to the model, with mean 0 and standard deviation 1, on the device of its
// parameters. Once per model.
void add_target_scale(Model& model, int64_t targets);
// Sets the buffers. mean, std: one value per target.
void set_target_scale(Model& model, const std::vector<double>& mean,
                      const std::vector<double>& std);
// Returns the buffers of the model; nullopt if it has none.
std::optional<TargetScale> target_scale(const Model& model);
// Returns outputs (n, targets) in the units of the targets: as they are if the model has no scale.
at::Tensor in_target_units(const Model& model, const at::Tensor& outputs);

// Moves the scale from `buffers` into the last layer, "head/kernel" (..., targets) and "head/bias"
// (targets) of `params`, so that other programs get values in the units of the targets. The tensors
// are replaced, not written to. `logit_scale`: logit_scale_of() the model. Does nothing if
// `buffers` has no scale. Throws Error(Exit::usage) at `origin` if there is no such layer.
void fold_target_scale(std::map<std::string, at::Tensor>& params,
                       std::map<std::string, at::Tensor>& buffers, const std::string& origin,
                       double logit_scale);
// Returns what the model multiplies the outputs of its last layer by (scaled_logits.h): 1 for most.
double logit_scale_of(const Model& model);

}  // namespace bv
