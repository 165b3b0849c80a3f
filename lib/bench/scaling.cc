#include "lib/bench/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "lib/util/error.h"

namespace bv {
namespace {

constexpr double kPasses = 3;  // forward and backward take as long as three forward passes

// Returns the seconds of forward and backward per example on one device.
double example_seconds(const ScalingOptions& options, const ScalingModel& model, int64_t batch) {
  if ((options.compute_ms > 0) == (options.tflops > 0))
    throw Error(Exit::usage, "bvtrain bench scaling",
                "give --compute-ms or --tflops: how fast a device computes");
  if (options.compute_ms > 0) return options.compute_ms * 1e-3 / static_cast<double>(batch);
  return kPasses * 2 * model.macs() / (options.tflops * 1e12);
}

void check_hosts(const Machine& machine, int ranks) {
  if (ranks <= machine.per_host) return;
  const std::string origin = "--processes " + std::to_string(ranks);
  if (ranks % machine.per_host != 0)
    throw Error(Exit::usage, origin,
                fmt::format("is not a multiple of --per-host {}", machine.per_host));
  if (machine.between.bandwidth == 0 || machine.between.latency == 0)
    throw Error(Exit::usage, origin, "several hosts: give --network-gb and --network-us");
}

int64_t examples_of(const ScalingOptions& options, const ScalingModel& model, int ranks) {
  if (options.examples > 0) return options.examples;
  if (model.batch_size() % ranks != 0)
    throw Error(Exit::usage, "--processes " + std::to_string(ranks),
                fmt::format("Batch size ({}) must be divisible by device number ({}); or give "
                            "--examples of one process",
                            model.batch_size(), ranks));
  return model.batch_size() / ranks;
}

}  // namespace

ScalingPrediction predict_scaling(const ScalingModel& model, const ScalingOptions& options) {
  ScalingPrediction prediction;
  prediction.batch = options.examples > 0 ? options.examples : model.batch_size();
  const double example = example_seconds(options, model, prediction.batch);
  const double update = options.update_ms * 1e-3;
  prediction.compute_seconds = example * static_cast<double>(prediction.batch);
  for (const int64_t count : options.processes) {
    ScalingPrediction::Row row;
    row.processes = static_cast<int>(count);
    check_hosts(options.machine, row.processes);
    row.hosts = std::max(1, row.processes / options.machine.per_host);
    row.examples = examples_of(options, model, row.processes);
    const double compute = example * static_cast<double>(row.examples);
    row.time = predict_step(model.work(row.processes, row.examples, compute, update), row.processes,
                            options.machine);
    row.efficiency = (compute + update) / row.time.seconds;
    row.images_per_second = static_cast<double>(row.examples * row.processes) / row.time.seconds;
    prediction.rows.push_back(row);
  }
  return prediction;
}

}  // namespace bv
