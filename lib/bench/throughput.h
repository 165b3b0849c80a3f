// The measurement behind `bvtrain bench`: images per second of the input pipeline alone, of the
// training step alone (repeatedly on one batch), and of both together as in a run.
#pragma once

#include <functional>

#include "lib/train/recipe.h"

namespace bv {

inline constexpr int kThroughputRounds = 3;  // per measurement

struct Throughput {
  const char* what;          // "loader", "step" or "training"
  double low, median, high;  // images per second, over the rounds
  double memory_gb = 0;      // 1e9 bytes that the device reads and writes per second; 0: not known
  double mfu = 0;            // model FLOPs utilization, as in Chrono::Setup; 0: not known
};

// Measures each of the three for kThroughputRounds rounds of at least `seconds` seconds, after a
// warm-up call, and passes each result to `report` at once. Trains the recipe's model. The recipe
// must be for one process, and its device must have been chosen (use_cuda()).
void measure_throughput(Recipe& recipe, double seconds,
                        const std::function<void(const Throughput&)>& report);

}  // namespace bv
