// bvtrain bench scaling: prints what lib/bench/scaling.h predicts.
#include "lib/bench/scaling.h"

#include <cstdio>

#include "app/bench.h"
#include "app/json_output.h"
#include "lib/config/load_config.h"
#include "lib/report/log_warnings.h"
#include "lib/util/text.h"

namespace bv {
namespace {

ScalingOptions scaling_options(const Arguments::Scaling& given) {
  ScalingOptions options;
  options.processes = given.processes;
  options.examples = given.examples;
  options.compute_ms = given.compute_ms;
  options.tflops = given.tflops;
  options.update_ms = given.update_ms;
  options.machine.inside = {given.bandwidth_gb * 1e9, given.latency_us * 1e-6};
  options.machine.between = {given.network_gb * 1e9, given.network_us * 1e-6};
  options.machine.per_host = given.per_host;
  options.machine.cores = given.cores;
  return options;
}

void print_table(const ScalingModel& model, const ScalingPrediction& prediction, double update_ms) {
  std::printf(
      "predicted, not measured: %s, %s parameters, %.3g GMACs per example; one device takes %.4g "
      "ms for %ld examples and %.4g ms for the update\n",
      model.model_name().c_str(), human_count(model.parameters()).c_str(), model.macs() / 1e9,
      1e3 * prediction.compute_seconds, static_cast<long>(prediction.batch), update_ms);
  std::printf("%9s %6s %9s %10s %10s %11s %12s %12s\n", "processes", "hosts", "examples", "step ms",
              "exposed ms", "efficiency", "img/s", "sent MiB");
  for (const ScalingPrediction::Row& row : prediction.rows) {
    std::printf("%9d %6d %9ld %10.3f %10.3f %10.1f%% %12.1f %12.2f\n", row.processes, row.hosts,
                static_cast<long>(row.examples), 1e3 * row.time.seconds, 1e3 * row.time.exposed,
                100 * row.efficiency, row.images_per_second, row.time.sent / 0x1p20);
  }
}

nlohmann::ordered_json scaling_json(const ScalingModel& model, const ScalingPrediction& prediction,
                                    double update_ms) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ScalingPrediction::Row& row : prediction.rows) {
    rows.push_back({{"processes", row.processes},
                    {"hosts", row.hosts},
                    {"examples_per_process", row.examples},
                    {"step_ms", 1e3 * row.time.seconds},
                    {"exposed_ms", 1e3 * row.time.exposed},
                    {"efficiency", row.efficiency},
                    {"images_per_second", row.images_per_second},
                    {"sent_bytes", row.time.sent}});
  }
  return {{"model", model.model_name()},
          {"parameters", model.parameters()},
          {"macs_per_example", model.macs()},
          {"compute_ms", 1e3 * prediction.compute_seconds},
          {"compute_examples", prediction.batch},
          {"update_ms", update_ms},
          {"predictions", rows}};
}

}  // namespace

Exit bench_scaling(const Arguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  const ScalingModel model(config, arguments.synthetic);
  log_warnings(config);
  const ScalingPrediction prediction = predict_scaling(model, scaling_options(arguments.scaling));
  if (arguments.json)
    print_json(scaling_json(model, prediction, arguments.scaling.update_ms));
  else
    print_table(model, prediction, arguments.scaling.update_ms);
  return Exit::ok;
}

}  // namespace bv
