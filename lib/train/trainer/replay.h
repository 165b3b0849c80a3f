// `bvtrain replay`: trains again from the last checkpoint of a run, without changing the run, until
// a step whose loss or gradients are not finite, and says where the bad values come from.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/workdir.h"
#include "lib/config/load_config.h"
#include "lib/input/source.h"

namespace bv {

struct BadStep {
  int64_t step = 0;
  std::string reason;  // "the loss is nan; 4 of 4 gradients are not finite, ..."
  // The examples of the batch in their order, and those of them whose inputs are not finite.
  std::vector<std::string> examples, bad_examples;
  // The first activation that is not finite if the forward pass is computed in float32, and the one
  // before it. Empty: all are finite.
  std::string activation, activation_before;
  // The length of each parameter before the step; NaN if it is not finite.
  std::vector<std::pair<std::string, double>> norms;
  Example batch;  // as the loader made it, before mixup

  // Returns a few lines for people.
  std::string text() const;
  nlohmann::ordered_json json() const;
};

struct Replay {
  int64_t first_step = 0, last_step = 0;  // the checkpoint's, and the last one that was computed
  std::optional<BadStep> bad;             // nullopt: all steps were good
};

// Computes in one process on the CPU, in the precision and with the number of threads of the run. A
// run of one process on a CPU has the same bits. Stops after `most_steps`; 0: at the end of the
// run. Throws Error(Exit::usage) if the workdir has no checkpoint from which a run can continue,
// and Stopped after a signal.
Replay replay(const Workdir& workdir, const std::vector<Override>& overrides, int64_t most_steps);

}  // namespace bv
