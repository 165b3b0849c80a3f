// What needs no c10d: options from the environment, and agreement of the ranks at the start.
#include <charconv>
#include <map>

#include "lib/distributed/group.h"
#include "lib/util/text.h"

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
  read("BVTRAIN_STARTUP_TIMEOUT", options.bounds.startup);
  read("BVTRAIN_STEP_TIMEOUT", options.bounds.least_step);
  read("BVTRAIN_SILENCE", options.bounds.silence);
  read("BVTRAIN_HEARTBEAT", options.bounds.heartbeat);
  read("BVTRAIN_PHASE_TIMEOUT", options.bounds.phase);
  if (options.bounds.heartbeat * 3 > options.bounds.silence)
    throw Error(Exit::usage, "BVTRAIN_SILENCE",
                fmt::format("must be at least three heartbeats (BVTRAIN_HEARTBEAT, now {:g} s)",
                            options.bounds.heartbeat));
  return options;
}

void check_agreement(Group& group, const std::vector<std::pair<std::string, std::string>>& facts) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : facts) {
    const std::vector<std::string> values = group.gather_text(value, "start checks");
    std::map<std::string, std::vector<std::string>> others;  // value to ranks
    for (size_t r = 1; r < values.size(); ++r)
      if (values[r] != values[0]) others[values[r]].push_back(std::to_string(r));
    for (const auto& [other, ranks] : others)
      lines.push_back(fmt::format("{}: error: rank{} {} {} '{}', rank 0 has '{}'", key,
                                  ranks.size() == 1 ? "" : "s", join(ranks, ", "),
                                  ranks.size() == 1 ? "has" : "have", other, values[0]));
  }
  if (!lines.empty()) throw Error::lines(Exit::usage, join(lines, "\n"));
}

}  // namespace bv
