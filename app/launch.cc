#include "app/launch.h"

#include "lib/dist/group.h"
#include "lib/dist/launcher.h"

namespace bv {

dist::Place find_place(const Arguments& arguments) {
  dist::PlaceOptions options;
  options.launcher = arguments.launcher;
  options.devices = dist::parse_devices(arguments.devices);
  options.nnodes = arguments.nnodes;
  options.node_rank = arguments.node_rank;
  options.rendezvous = arguments.rendezvous;
  const dist::Place place = dist::find_place(options, dist::environment_map());
  const bool ours = place.launches || place.store_host == dist::StoreHost::launcher;
  if (!ours && arguments.max_restarts > 0)
    throw Error(
        Exit::usage, fmt::format("--max-restarts {}", arguments.max_restarts),
        "only ranks that bvtrain starts itself (--devices cpu:N, --nnodes) are started again");
  if (!arguments.elastic.empty() && arguments.max_restarts == 0)
    throw Error(Exit::usage, "--elastic " + arguments.elastic, "needs --max-restarts N");
  return place;
}

Exit launch_ranks(const Arguments& arguments, const Config& config, const dist::Place& place) {
  dist::LaunchOptions options;
  options.place = place;
  options.argv = arguments.argv;
  options.max_restarts = arguments.max_restarts;
  options.batch_size = config.section("input").get<int64_t>("batch_size", 0);
  options.startup = dist::group_options(dist::environment_map()).bounds.startup;
  if (!arguments.elastic.empty()) dist::parse_elastic(arguments.elastic, options);
  return static_cast<Exit>(dist::launch(options));
}

}  // namespace bv
