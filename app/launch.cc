#include "app/launch.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <system_error>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/distributed/group.h"
#include "lib/distributed/launch/launcher.h"
#include "lib/params/sharding.h"
#include "lib/util/file.h"

namespace bv {
namespace {

RankLayoutOptions layout_options(const Arguments& arguments, const Devices& devices) {
  RankLayoutOptions options;
  options.launcher = arguments.launcher;
  options.devices = devices;
  options.nnodes = arguments.nnodes;
  options.node_rank = arguments.node_rank;
  options.rendezvous = arguments.rendezvous;
  return options;
}

// Returns the greatest common divisor of all batch sizes, in training and in evaluators. The number
// of ranks must divide it.
int64_t common_batch_size(const Config& config) {
  const auto training = config.section("input").get<int64_t>("batch_size", 0);
  const auto usual = config.get<int64_t>("batch_size_eval", training);
  int64_t common = training;
  for (const auto& [name, evaluator] : config.section("evals").items())
    common = std::gcd(common, evaluator.get<int64_t>("batch_size", usual));
  return common;
}

// Returns LaunchOptions::workdir_problem for a run with this workdir. A run writes run.json there
// before its first step. Call it before the run starts.
std::function<std::string(bool)> workdir_check(const std::string& dir) {
  const std::string run_json = Workdir(dir).run_json();
  return [dir, run_json, begun = file_exists(run_json)](bool trained) {
    std::error_code error;  // of a disk or server: it may be temporary, and the ranks report it
    const bool there = std::filesystem::exists(run_json, error);
    const bool gone = (begun || trained) && !there && !error;
    return gone ? dir + ": " + kWorkdirGone : "";
  };
}

}  // namespace

void check_launch_flags(const Arguments& arguments) {
  check_options(layout_options(arguments, parse_devices(arguments.devices)));
  if (arguments.elastic.empty()) return;
  LaunchOptions unused;
  parse_elastic(arguments.elastic, unused);
  if (arguments.max_restarts == 0)
    throw Error(Exit::usage, "--elastic " + arguments.elastic, "needs --max-restarts N");
}

RankLayout find_rank_layout(const Arguments& arguments, const Devices& devices) {
  const RankLayout layout = find_rank_layout(layout_options(arguments, devices), environment_map());
  const bool ours = layout.launches || layout.store_host == StoreHost::launcher;
  if (!ours && arguments.max_restarts > 0)
    throw Error(
        Exit::usage, fmt::format("--max-restarts {}", arguments.max_restarts),
        "bvtrain restarts only processes that it has started itself (--devices cpu:N, --nnodes)");
  return layout;
}

Exit launch_ranks(const Arguments& arguments, const Config& config, const RankLayout& layout) {
  if (is_pipe(arguments.config))
    throw Error(Exit::usage, "--config " + arguments.config,
                "is a pipe, which only one process can read; write the config to a file");
  LaunchOptions options;
  options.layout = layout;
  options.argv = arguments.argv;
  options.max_restarts = arguments.max_restarts;
  if (!arguments.elastic.empty()) {
    parse_elastic(arguments.elastic, options);
    options.batch_size = common_batch_size(config);
    if (options.least_ranks < options.most_ranks) Sharding::check_elastic(config);
  }
  if (!arguments.workdir.empty()) options.workdir_problem = workdir_check(arguments.workdir);
  const Timeouts timeouts = group_options(environment_map()).timeouts;
  options.startup_timeout = timeouts.startup;
  // Longer than a rank takes to detect another rank's failure.
  options.grace_period = std::max(options.grace_period, 2 * timeouts.heartbeat + 5);
  return static_cast<Exit>(launch(options));
}

}  // namespace bv
