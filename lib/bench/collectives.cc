#include "lib/bench/collectives.h"

#include <ATen/ops/ones.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <vector>

#include "lib/report/chrono.h"

namespace bv {
namespace {

constexpr int64_t kLeastBytes = 4 << 10;
constexpr int64_t kTotalBytes = 256 << 20;  // of all repetitions of a size

// Returns the median seconds of `once`, after one call to warm up.
double median_seconds(Group& group, c10::Device device, int64_t bytes,
                      const std::function<void()>& collective) {
  const c10::impl::VirtualGuardImpl impl(device.type());
  const auto once = [&] {
    collective();
    if (!device.is_cpu()) impl.synchronizeDevice(device.index());
  };
  const auto repetitions = static_cast<size_t>(std::clamp<int64_t>(kTotalBytes / bytes, 5, 101));
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

CollectiveTimes measure_size(Group& group, c10::Device device, int64_t bytes) {
  const int64_t shard_size = bytes / 4 / group.size();
  const at::Tensor whole = at::ones({shard_size * group.size()}, device);
  const at::Tensor shard = at::ones({shard_size}, device);
  const auto median = [&](const std::function<void()>& collective) {
    return median_seconds(group, device, bytes, collective);
  };
  return {bytes, median([&] { group.all_reduce_sum(whole, "bench").wait(); }),
          median([&] { group.reduce_scatter_sum(shard, whole, "bench").wait(); }),
          median([&] { group.all_gather(whole, shard, "bench").wait(); })};
}

}  // namespace

void measure_collectives(Group& group, c10::Device device, int64_t most_bytes,
                         const std::function<void(const CollectiveTimes&)>& report) {
  for (int64_t bytes = kLeastBytes; bytes <= most_bytes; bytes *= 4)
    report(measure_size(group, device, bytes));
}

std::optional<Link> estimate_link(const CollectiveTimes& smallest, const CollectiveTimes& largest,
                                  int ranks) {
  const double messages = 2.0 * (ranks - 1);  // that a rank sends in a ring's all-reduce
  const double latency = smallest.all_reduce / messages;
  const double sent = messages / ranks * static_cast<double>(largest.bytes);
  const double sending = largest.all_reduce - smallest.all_reduce;
  if (sending <= 0) return std::nullopt;
  return Link{.bandwidth = sent / sending, .latency = latency};
}

}  // namespace bv
