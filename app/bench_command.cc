// bvtrain bench: images per second of the input pipeline alone, of the training step alone (on one
// batch, again and again) and of both together as a run has them, for any config.
#include <algorithm>
#include <cstdio>

#include "app/bench.h"
#include "app/commands.h"
#include "lib/device/cuda.h"
#include "lib/device/devices.h"
#include "lib/report/clock.h"
#include "lib/report/log.h"
#include "lib/train/recipe.h"

namespace bv {
namespace {

constexpr int kRounds = 3;

struct Rate {
  double low, median, high;  // images per second
};

// Calls `once` for `seconds` after a warm-up call, kRounds times.
template <class Once>
Rate measure(int64_t batch_size, double seconds, const Once& once) {
  std::vector<double> rates;
  once();
  for (int round = 0; round < kRounds; ++round) {
    const double begin = monotonic_seconds();
    int64_t calls = 0;
    double now = begin;
    while (now - begin < seconds || calls < 2) {
      once();
      ++calls;
      now = monotonic_seconds();
    }
    rates.push_back(static_cast<double>(calls * batch_size) / (now - begin));
  }
  std::sort(rates.begin(), rates.end());
  return {rates.front(), rates[kRounds / 2], rates.back()};
}

void print(const char* what, const Rate& rate) {
  std::printf("%-10s %10.1f img/s   (%.1f .. %.1f)\n", what, rate.median, rate.low, rate.high);
  std::fflush(stdout);
}

}  // namespace

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
                /*meta=*/false, /*group=*/nullptr, device);
  for (const std::string& line : warnings(recipe.config)) log::warn("{}", line);
  const int64_t batch_size = recipe.length.batch_size;
  std::printf(
      "%s, batch %ld, %s, %d compute threads, %d loader threads; median (min .. max) of %d rounds "
      "of %.1f s\n",
      recipe.model_name.c_str(), static_cast<long>(batch_size),
      recipe.precision == Precision::bf16 ? "bf16" : "float32", recipe.compute_threads,
      recipe.loader.threads, kRounds, arguments.seconds);
  Loader loader(recipe.data, recipe.pp, recipe.loader);
  print("loader", measure(batch_size, arguments.seconds, [&] { loader.next(); }));
  int64_t step = 0;
  Batch batch = loader.next();
  for (auto& [name, value] : batch) value = value.clone();
  print("step", measure(batch_size, arguments.seconds, [&] {
          ++step;
          recipe.step->run(step, batch, false);
        }));
  loader.seek(0);
  print("training", measure(batch_size, arguments.seconds, [&] {
          ++step;
          recipe.step->run(step, loader.next(), step % 50 == 0);
          if (step % 50 == 0) recipe.step->measurements(step);
        }));
  return Exit::ok;
}

}  // namespace bv
