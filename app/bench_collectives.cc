// bvtrain bench collectives --devices cpu:N: how long the collectives of a step take by size, and
// the bandwidth and latency that `bench scaling` wants.
#include <ATen/ops/ones.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "app/bench.h"
#include "app/launch.h"
#include "lib/distributed/group.h"
#include "lib/report/clock.h"
#include "lib/report/log.h"

namespace bv {
namespace {

constexpr int64_t kLeast = 4 << 10;    // bytes
constexpr int64_t kTotal = 256 << 20;  // bytes of all repetitions of a size

// Median seconds of rank 0, after one to warm up.
double median_seconds(Group& group, int64_t bytes, const std::function<void()>& once) {
  const auto repetitions = static_cast<size_t>(std::clamp<int64_t>(kTotal / bytes, 5, 101));
  once();
  std::vector<double> seconds;
  for (size_t i = 0; i < repetitions; ++i) {
    group.barrier("bench");
    const double begin = monotonic_seconds();
    once();
    seconds.push_back(monotonic_seconds() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[repetitions / 2];
}

struct Times {
  double all_reduce, reduce_scatter, all_gather;
};

Times times(Group& group, int64_t bytes) {
  const int64_t part = bytes / 4 / group.size();
  const at::Tensor whole = at::ones({part * group.size()}), own = at::ones({part});
  return {
      median_seconds(group, bytes, [&] { group.all_reduce_sum(whole, "bench").wait(); }),
      median_seconds(group, bytes, [&] { group.reduce_scatter_sum(own, whole, "bench").wait(); }),
      median_seconds(group, bytes, [&] { group.all_gather(whole, own, "bench").wait(); })};
}

void measure(Group& group, int64_t most) {
  const bool speaks = group.rank() == 0;
  const double hops = 2.0 * (group.size() - 1);  // of a ring's all-reduce
  double latency = 0;
  if (speaks)
    std::printf("%10s %14s %18s %14s   ms, %d processes\n", "KiB", "all-reduce", "reduce-scatter",
                "all-gather", group.size());
  for (int64_t bytes = kLeast; bytes <= most; bytes *= 4) {
    const Times one = times(group, bytes);
    if (!speaks) continue;
    std::printf("%10ld %14.3f %18.3f %14.3f\n", static_cast<long>(bytes >> 10),
                1e3 * one.all_reduce, 1e3 * one.reduce_scatter, 1e3 * one.all_gather);
    if (bytes == kLeast) latency = one.all_reduce / hops;
    if (bytes * 4 <= most) continue;
    const double sent = hops / group.size() * static_cast<double>(bytes);
    std::printf("--latency-us %.1f --bandwidth-gb %.3f\n", 1e6 * latency,
                sent / (one.all_reduce - hops * latency) / 1e9);
  }
}

}  // namespace

Exit bench_collectives(const Arguments& arguments) {
  const Devices devices = parse_devices(arguments.devices);
  if (devices.kind == Devices::Kind::cuda)
    throw Error(Exit::usage, "--devices " + arguments.devices,
                "bench collectives measures processes of the CPU (for NCCL there is nccl-tests); "
                "give --devices cpu:N");
  const RankLayout place = find_rank_layout(arguments, devices);
  if (place.launches) return launch_ranks(arguments, Config(), place);
  if (place.size == 1)
    throw Error(Exit::usage, "bvtrain bench collectives",
                "one process sends nothing; give --devices cpu:N");
  log::set_rank(place.rank);
  const auto group = Group::join(place, group_options(environment_map()));
  measure(*group, arguments.most_mb << 20);
  std::fflush(stdout);
  group->finish();
  return Exit::ok;
}

}  // namespace bv
