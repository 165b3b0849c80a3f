// What each rank needs for a training step, from the config alone.
#pragma once

#include "lib/model/model.h"
#include "lib/train/step/step_config.h"

namespace bv {

struct StepCost {
  double state_bytes = 0;  // held: parameters, gradients, optimizer state and averages
  double sent_bytes = 0;   // sent in a step: gradients and gathered parameters
};

// `config` must have an optimizer. The model may be on the meta device.
StepCost step_cost(const StepConfig& config, const Model& model, int ranks);

}  // namespace bv
