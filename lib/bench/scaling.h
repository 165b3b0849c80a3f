// The prediction behind `bvtrain bench scaling`: training steps on increasing numbers of processes,
// from a config's model and from given computing times, bandwidths and latencies.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/bench/scaling_model.h"
#include "lib/bench/step_time.h"

namespace bv {

struct ScalingOptions {
  std::vector<int64_t> processes;  // a row for each number of processes
  int64_t examples = 0;            // of each process; 0: the batch size divided by the processes
  // How fast one device computes: milliseconds for forward and backward of a batch, or TFLOP/s.
  // Exactly one of them must be positive.
  double compute_ms = 0, tflops = 0;
  double update_ms = 0;  // of the optimizer on all parameters
  Machine machine;
};

struct ScalingPrediction {
  struct Row {
    int processes = 1, hosts = 1;
    int64_t examples = 0;  // of each process
    StepTime time;
    double efficiency = 0;         // speed relative to the same number of devices that train alone
    double images_per_second = 0;  // of all processes
  };
  int64_t batch = 0;           // examples of one device for compute_seconds
  double compute_seconds = 0;  // forward and backward of `batch` examples on one device
  std::vector<Row> rows;
};

// Throws Error(Exit::usage), naming the flag of `bvtrain bench scaling` that is wrong.
ScalingPrediction predict_scaling(const ScalingModel& model, const ScalingOptions& options);

}  // namespace bv
