// bvtrain bench collectives: prints what lib/bench/collectives.h measures.
#include "lib/bench/collectives.h"

#include <cstdio>
#include <vector>

#include "app/bench.h"
#include "app/json_output.h"
#include "app/launch.h"
#include "lib/device/cuda.h"
#include "lib/distributed/group.h"
#include "lib/report/log.h"

namespace bv {
namespace {

nlohmann::ordered_json collectives_json(int processes, const std::vector<CollectiveTimes>& all,
                                        const std::optional<Link>& link) {
  nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
  for (const CollectiveTimes& times : all) {
    sizes.push_back({{"bytes", times.bytes},
                     {"all_reduce_ms", 1e3 * times.all_reduce},
                     {"reduce_scatter_ms", 1e3 * times.reduce_scatter},
                     {"all_gather_ms", 1e3 * times.all_gather}});
  }
  nlohmann::ordered_json out = {{"processes", processes}, {"sizes", sizes}};
  out["latency_us"] = out["bandwidth_gb"] = nullptr;
  if (link) {
    out["latency_us"] = 1e6 * link->latency;
    out["bandwidth_gb"] = link->bandwidth / 1e9;
  }
  return out;
}

}  // namespace

Exit bench_collectives(const Arguments& arguments) {
  const Devices devices = resolve_devices(parse_devices(arguments.devices));
  const RankLayout layout = find_rank_layout(arguments, devices);
  if (layout.launches) return launch_ranks(arguments, Config(), layout);
  if (layout.size == 1)
    throw Error(Exit::usage, "bvtrain bench collectives",
                "one process sends nothing; give --devices cpu:N or cuda:0,1");
  log::set_rank(layout.rank);
  const c10::Device device = own_device(devices, layout.place());
  GroupOptions options = group_options(environment_map());
  if (!device.is_cpu()) {
    use_cuda(device.index());
    options.cuda = device.index();
  }
  const auto group = Group::join(layout, options);
  const bool prints = group->rank() == 0;
  const bool text = prints && !arguments.json;
  if (text)
    std::printf("%10s %14s %18s %14s   ms, %d processes\n", "KiB", "all-reduce", "reduce-scatter",
                "all-gather", group->size());
  std::vector<CollectiveTimes> all;
  measure_collectives(*group, device, arguments.most_mb << 20, [&](const CollectiveTimes& times) {
    all.push_back(times);
    if (text)
      std::printf("%10ld %14.3f %18.3f %14.3f\n", static_cast<long>(times.bytes >> 10),
                  1e3 * times.all_reduce, 1e3 * times.reduce_scatter, 1e3 * times.all_gather);
  });
  if (prints && !all.empty()) {
    const auto link = estimate_link(all.front(), all.back(), group->size());
    if (!link)
      log::warn(
          "the largest all-reduce took no longer than the smallest, so latency and bandwidth "
          "are not known; try again with a larger --most-mb, or when the host is less busy");
    if (!text)
      print_json(collectives_json(group->size(), all, link));
    else if (link)
      std::printf("--latency-us %.1f --bandwidth-gb %.3f\n", 1e6 * link->latency,
                  link->bandwidth / 1e9);
  }
  std::fflush(stdout);
  group->finish();
  return Exit::ok;
}

}  // namespace bv
