#include "lib/distributed/group_options.h"

#include <charconv>

#include "lib/util/error.h"

namespace bv {

GroupOptions group_options(const EnvironmentMap& environment) {
  GroupOptions options;
  const auto read = [&](const std::string& name, double& seconds) {
    const auto found = environment.find(name);
    if (found == environment.end() || found->second.empty()) return;
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0) || seconds > 1e7)
      throw Error(Exit::usage, fmt::format("{}={}", name, text.substr(0, 200)),
                  "expected seconds, a positive number");
  };
  read("BVTRAIN_STARTUP_TIMEOUT", options.timeouts.startup);
  read("BVTRAIN_STEP_TIMEOUT", options.timeouts.least_step);
  read("BVTRAIN_SILENCE", options.timeouts.silence);
  read("BVTRAIN_HEARTBEAT", options.timeouts.heartbeat);
  read("BVTRAIN_PHASE_TIMEOUT", options.timeouts.phase);
  if (options.timeouts.heartbeat * 3 > options.timeouts.silence)
    throw Error(Exit::usage, "BVTRAIN_SILENCE",
                fmt::format("must be at least three heartbeats (BVTRAIN_HEARTBEAT, now {:g} s)",
                            options.timeouts.heartbeat));
  return options;
}

}  // namespace bv
