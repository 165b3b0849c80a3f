// bvtrain bench: prints what lib/bench/throughput.h measures.
#include <cstdio>

#include "app/bench.h"
#include "app/commands.h"
#include "lib/bench/throughput.h"
#include "lib/config/load_config.h"
#include "lib/device/cuda.h"
#include "lib/device/devices.h"
#include "lib/report/log.h"

namespace bv {

Exit bench_command(const Arguments& arguments) {
  if (arguments.bench == "collectives") return bench_collectives(arguments);
  if (arguments.config.empty()) throw Error(Exit::usage, "bvtrain bench", "no --config given");
  if (arguments.bench == "scaling") return bench_scaling(arguments);
  const Devices devices = resolve_devices(parse_devices(arguments.devices));
  if (devices.kind == Devices::Kind::cpu && devices.count > 1)
    throw Error(Exit::usage, "--devices " + devices.text, "bench measures one process");
  const c10::Device device = own_device(devices, 0);
  if (!device.is_cpu()) use_cuda(device.index());
  Recipe recipe(load_config(arguments.config, arguments.overrides), arguments.synthetic,
                /*meta=*/false, Group::single(), device);
  for (const std::string& line : warnings(recipe.config)) log::warn("{}", line);
  std::printf(
      "%s, batch %ld, %s, %d compute threads, %d loader threads; median (min .. max) of %d rounds "
      "of %.1f s\n",
      recipe.model_name.c_str(), static_cast<long>(recipe.length.batch_size),
      recipe.precision == Precision::bf16 ? "bf16" : "float32", recipe.compute_threads,
      recipe.loader.threads, kThroughputRounds, arguments.seconds);
  measure_throughput(recipe, arguments.seconds, [](const Throughput& rate) {
    std::printf("%-10s %10.1f img/s   (%.1f .. %.1f)\n", rate.what, rate.median, rate.low,
                rate.high);
    std::fflush(stdout);
  });
  return Exit::ok;
}

}  // namespace bv
