// bvtrain bench operators: prints what lib/bench/operators.h measures.
#include "lib/bench/operators.h"

#include <cstdio>

#include "app/bench.h"
#include "app/json_output.h"
#include "lib/config/load_config.h"
#include "lib/device/devices.h"
#include "lib/device/peak_flops.h"
#include "lib/device/plain_kernels.h"
#include "lib/report/log_warnings.h"

namespace bv {
namespace {

struct Gpu {
  std::string name;
  double flops = 0, bandwidth = 0;  // per second
};

std::vector<Gpu> gpus_of(const Arguments& arguments, bool bf16) {
  std::vector<Gpu> gpus;
  for (const std::string& name : arguments.gpus) {
    gpus.push_back({name, peak_flops(name, bf16), peak_bandwidth(name)});
    if (gpus.back().flops == 0)
      throw Error(Exit::usage, "--gpu " + name,
                  "unknown GPU; write it as in H100, H200, A100, L40S, RTX 4090");
  }
  return gpus;
}

double total(const std::vector<OperatorSum>& sums, double OperatorSum::*member) {
  double all = 0;
  for (const OperatorSum& sum : sums) all += sum.*member;
  return all;
}

// The sums for one more GPU, in the order of `first`.
double seconds_of(const std::vector<OperatorSum>& sums, const std::string& name) {
  for (const OperatorSum& sum : sums)
    if (sum.name == name) return sum.seconds;
  return 0;
}

void print_operators(const std::vector<std::vector<OperatorSum>>& sums,
                     const std::vector<Gpu>& gpus, const Recipe& shapes) {
  const int64_t batch = shapes.length.batch_size;
  std::printf("%s, batch %ld, %s: FLOPs and bytes of a step, and its minimum time\n",
              shapes.model_name.c_str(), static_cast<long>(batch),
              shapes.precision_choice.name().c_str());
  const auto line = [&](const std::string& name, double calls, double flops, double bytes,
                        const auto& milliseconds) {
    std::printf("%-48s %6.0f %10.1f %9.2f", name.c_str(), calls, flops * 1e-9, bytes * 1e-9);
    for (size_t i = 0; i < gpus.size(); ++i) std::printf(" %12.3f", milliseconds(i));
    std::printf("\n");
  };
  std::printf("%-48s %6s %10s %9s", "operator", "calls", "GFLOP", "GB");
  for (const Gpu& gpu : gpus) std::printf(" %12s", (gpu.name + ", ms").c_str());
  std::printf("\n");
  for (const OperatorSum& sum : sums[0]) {
    line(sum.name, sum.calls, sum.flops, sum.bytes,
         [&](size_t i) { return 1e3 * seconds_of(sums[i], sum.name); });
  }
  line("all", total(sums[0], &OperatorSum::calls), total(sums[0], &OperatorSum::flops),
       total(sums[0], &OperatorSum::bytes),
       [&](size_t i) { return 1e3 * total(sums[i], &OperatorSum::seconds); });
  for (size_t i = 0; i < gpus.size(); ++i) {
    const double seconds = total(sums[i], &OperatorSum::seconds);
    std::printf("%s: at most %.0f images per second, %.0f %% of its peak\n", gpus[i].name.c_str(),
                static_cast<double>(batch) / seconds,
                100 * total(sums[i], &OperatorSum::flops) / seconds / gpus[i].flops);
  }
}

nlohmann::ordered_json operators_json(const std::vector<std::vector<OperatorSum>>& sums,
                                      const std::vector<Gpu>& gpus, const Recipe& shapes) {
  nlohmann::ordered_json operators = nlohmann::ordered_json::array();
  for (const OperatorSum& sum : sums[0]) {
    nlohmann::ordered_json seconds;
    for (size_t i = 0; i < gpus.size(); ++i) seconds[gpus[i].name] = seconds_of(sums[i], sum.name);
    operators.push_back({{"operator", sum.name},
                         {"calls", sum.calls},
                         {"flops", sum.flops},
                         {"bytes", sum.bytes},
                         {"least_seconds", seconds}});
  }
  return {{"model", shapes.model_name},
          {"batch_size", shapes.length.batch_size},
          {"precision", shapes.precision_choice.name()},
          {"operators", operators}};
}

}  // namespace

Exit bench_operators(const Arguments& arguments) {
  if (arguments.config.empty())
    throw Error(Exit::usage, "bvtrain bench operators", "no --config given; give --config FILE");
  const c10::Device device = use_one_device(arguments.devices, "bench operators");
  if (device.is_cpu()) use_plain_kernels();
  std::vector<Override> overrides = arguments.overrides;
  const auto make_recipe = [&](bool meta) {
    return std::make_unique<Recipe>(load_config(arguments.config, overrides), arguments.synthetic,
                                    meta, Group::single(), device);
  };
  std::unique_ptr<Recipe> shapes = make_recipe(/*meta=*/true);
  log_warnings(shapes->config);
  if (shapes->precision_choice.automatic) {  // what it is on a GPU
    overrides.push_back({"precision", "bf16", "bench operators"});
    shapes = make_recipe(/*meta=*/true);
  }
  const std::vector<Gpu> gpus = gpus_of(arguments, shapes->precision == Precision::bf16);
  const auto recipe_of = [&](int64_t batch) {
    overrides.push_back({"input.batch_size", std::to_string(batch), "bench operators"});
    return make_recipe(/*meta=*/false);
  };
  const std::vector<OperatorCall> calls =
      operators_of_batch(recipe_of, shapes->grad_accum_steps, shapes->length.batch_size);
  std::vector<std::vector<OperatorSum>> sums;
  for (const Gpu& gpu : gpus) sums.push_back(roofline(calls, gpu.flops, gpu.bandwidth));
  if (arguments.json)
    print_json(operators_json(sums, gpus, *shapes));
  else
    print_operators(sums, gpus, *shapes);
  return Exit::ok;
}

}  // namespace bv
