#include "lib/bench/throughput.h"

#include <algorithm>
#include <vector>

#include "lib/device/spin_throttle.h"
#include "lib/report/chrono.h"

namespace bv {
namespace {

constexpr int64_t kMeasuredEvery = 50;  // steps between two measured steps of a normal run

Throughput measure(const char* what, int64_t batch_size, double seconds,
                   const std::function<void()>& once) {
  std::vector<double> rates;
  once();
  for (int round = 0; round < kThroughputRounds; ++round) {
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
  return {.what = what,
          .low = rates.front(),
          .median = rates[kThroughputRounds / 2],
          .high = rates.back()};
}

}  // namespace

void measure_throughput(Recipe& recipe, double seconds,
                        const std::function<void(const Throughput&)>& report) {
  const int64_t batch_size = recipe.length.batch_size;
  const SpinThrottle throttle(recipe.compute_threads);
  Loader loader(recipe.data, recipe.loader);
  report(measure("loader", batch_size, seconds, [&] { loader.next(); }));
  const auto report_steps = [&](Throughput rate) {
    if (const double peak = recipe.peak_flops(); peak > 0)
      rate.mfu = rate.median * recipe.step->example_flops() / peak;
    rate.memory_gb =
        1e-9 * recipe.step->step_bytes() * rate.median / static_cast<double>(batch_size);
    report(rate);
  };
  int64_t step = 0;
  Batch batch = loader.next();
  for (auto& [name, value] : batch)
    value = recipe.device.is_cpu() ? value.clone() : value.clone().pin_memory();
  while (recipe.step->graph_is_due()) recipe.step->run(++step, batch, false);
  report_steps(measure("step", batch_size, seconds, [&] {
    ++step;
    recipe.step->run(step, batch, false);
  }));
  loader.seek(0);
  report_steps(measure("training", batch_size, seconds, [&] {
    ++step;
    const bool measured = step % kMeasuredEvery == 0;
    recipe.step->run(step, loader.next(), measured);
    if (measured) recipe.step->measurements(step);
  }));
}

}  // namespace bv
