// bvtrain bench: prints what lib/bench/throughput.h measures.
#include <cstdio>

#include "app/bench.h"
#include "app/commands.h"
#include "app/json_output.h"
#include "lib/bench/throughput.h"
#include "lib/config/load_config.h"
#include "lib/device/cuda.h"
#include "lib/device/devices.h"
#include "lib/report/log_warnings.h"
#include "lib/train/start.h"

namespace bv {
namespace {

void print_throughput(Recipe& recipe, double seconds) {
  std::printf(
      "%s, batch %ld, %s, %d compute threads, %d loader threads; median (min .. max) of %d rounds "
      "of %.1f s\n",
      recipe.model_name.c_str(), static_cast<long>(recipe.length.batch_size),
      recipe.precision_choice.name().c_str(), recipe.compute_threads, recipe.loader.threads,
      kThroughputRounds, seconds);
  std::fflush(stdout);
  measure_throughput(recipe, seconds, [](const Throughput& rate) {
    const std::string mfu = rate.mfu > 0 ? fmt::format("   MFU {:.1f} %", 100 * rate.mfu) : "";
    const std::string memory =
        rate.memory_gb > 0 ? fmt::format("   {:.3g} GB/s of memory", rate.memory_gb) : "";
    std::printf("%-10s %10.1f img/s   (%.1f .. %.1f)%s%s\n", rate.what, rate.median, rate.low,
                rate.high, mfu.c_str(), memory.c_str());
    std::fflush(stdout);
  });
}

void print_throughput_json(Recipe& recipe, double seconds) {
  nlohmann::ordered_json out = {{"model", recipe.model_name},
                                {"batch_size", recipe.length.batch_size},
                                {"precision", recipe.precision_choice.name()},
                                {"compute_threads", recipe.compute_threads},
                                {"loader_threads", recipe.loader.threads},
                                {"rounds", kThroughputRounds},
                                {"seconds", seconds}};
  measure_throughput(recipe, seconds, [&](const Throughput& rate) {
    out["images_per_second"][rate.what] = {
        {"median", rate.median}, {"min", rate.low}, {"max", rate.high}};
    if (rate.mfu > 0) out["mfu"][rate.what] = rate.mfu;
    if (rate.memory_gb > 0) out["memory_gb_per_second"][rate.what] = rate.memory_gb;
  });
  print_json(out);
}

}  // namespace

Exit bench_command(const Arguments& arguments) {
  if (arguments.part == "collectives") return bench_collectives(arguments);
  if (arguments.part == "memory") return bench_memory(arguments);
  if (arguments.part == "operators") return bench_operators(arguments);
  if (arguments.config.empty())
    throw Error(Exit::usage, "bvtrain bench", "no --config given; give --config FILE");
  if (arguments.part == "scaling") return bench_scaling(arguments);
  const c10::Device device = use_one_device(arguments.devices, "bench");
  Recipe recipe(load_config(arguments.config, arguments.overrides), arguments.synthetic,
                /*meta=*/false, Group::single(), device);
  log_warnings(recipe.config);
  check_cache_outside_data(recipe.config);
  recipe.data->open_cache(recipe.group);
  if (arguments.json)
    print_throughput_json(recipe, arguments.seconds);
  else
    print_throughput(recipe, arguments.seconds);
  return Exit::ok;
}

}  // namespace bv
