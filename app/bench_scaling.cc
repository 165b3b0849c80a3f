// bvtrain bench scaling: steps of many processes, predicted from a config's model and from given
// times of computing, bandwidths and latencies. Nothing is measured here.
#include <cstdio>

#include "app/bench.h"
#include "lib/bench/scaling.h"
#include "lib/report/log.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr double kPasses = 3;  // forward and backward, in forward passes

Machine machine_of(const Arguments::Scaling& given) {
  Machine machine;
  machine.inside = {given.bandwidth_gb * 1e9, given.latency_us * 1e-6};
  machine.between = {given.network_gb * 1e9, given.network_us * 1e-6};
  machine.per_host = given.per_host;
  machine.cores = given.cores;
  return machine;
}

// Seconds of forward and backward of one example on one device.
double example_seconds(const Arguments::Scaling& given, const Scaling& model, int64_t batch) {
  if ((given.compute_ms > 0) == (given.tflops > 0))
    throw Error(Exit::usage, "bvtrain bench scaling",
                "give --compute-ms or --tflops: how fast a device computes");
  if (given.compute_ms > 0) return given.compute_ms * 1e-3 / static_cast<double>(batch);
  return kPasses * 2 * model.macs() / (given.tflops * 1e12);
}

void check_hosts(const Arguments::Scaling& given, int ranks) {
  if (ranks <= given.per_host) return;
  const std::string place = "--processes " + std::to_string(ranks);
  if (ranks % given.per_host != 0)
    throw Error(Exit::usage, place,
                fmt::format("is not a multiple of --per-host {}", given.per_host));
  if (given.network_gb == 0 || given.network_us == 0)
    throw Error(Exit::usage, place, "several hosts: give --network-gb and --network-us");
}

int64_t examples_of(const Arguments::Scaling& given, const Scaling& model, int ranks) {
  if (given.examples > 0) return given.examples;
  if (model.batch_size() % ranks != 0)
    throw Error(Exit::usage, "--processes " + std::to_string(ranks),
                fmt::format("Batch size ({}) must be divisible by device number ({}); or give "
                            "--examples of one process",
                            model.batch_size(), ranks));
  return model.batch_size() / ranks;
}

}  // namespace

Exit bench_scaling(const Arguments& arguments) {
  const Arguments::Scaling& given = arguments.scaling;
  const Config config = load_config(arguments.config, arguments.overrides);
  const Scaling model(config, arguments.synthetic);
  for (const std::string& line : warnings(config)) log::warn("{}", line);
  const Machine machine = machine_of(given);
  const int64_t batch = given.examples > 0 ? given.examples : model.batch_size();
  const double example = example_seconds(given, model, batch);
  std::vector<StepTime> times;  // before anything is printed
  for (const int64_t count : given.processes) {
    const int ranks = static_cast<int>(count);
    check_hosts(given, ranks);
    const int64_t own = examples_of(given, model, ranks);
    const double compute = example * static_cast<double>(own);
    times.push_back(
        predict_step(model.work(ranks, own, compute, given.update_ms * 1e-3), ranks, machine));
  }
  std::printf(
      "predicted, not measured: %s, %s parameters, %.3g GMACs an example; one device takes %.4g ms "
      "for %ld examples and %.4g ms for the update\n",
      model.model_name().c_str(), human_count(model.parameters()).c_str(), model.macs() / 1e9,
      1e3 * example * static_cast<double>(batch), static_cast<long>(batch), given.update_ms);
  std::printf("%9s %6s %9s %10s %10s %11s %12s %12s\n", "processes", "hosts", "examples", "step ms",
              "exposed ms", "efficiency", "img/s", "sent MiB");
  for (size_t i = 0; i < times.size(); ++i) {
    const int ranks = static_cast<int>(given.processes[i]);
    const int64_t own = examples_of(given, model, ranks);
    const StepTime& time = times[i];
    // Against as many devices that each train alone.
    const double alone = example * static_cast<double>(own) + given.update_ms * 1e-3;
    std::printf("%9d %6d %9ld %10.3f %10.3f %10.1f%% %12.1f %12.2f\n", ranks,
                std::max(1, ranks / given.per_host), static_cast<long>(own), 1e3 * time.seconds,
                1e3 * time.exposed, 100 * alone / time.seconds,
                static_cast<double>(own * ranks) / time.seconds, time.sent / 0x1p20);
  }
  return Exit::ok;
}

}  // namespace bv
