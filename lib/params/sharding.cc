#include "lib/params/sharding.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace bv {
namespace {

constexpr const char* kMesh = "mesh";
constexpr const char* kRules = "sharding_rules";
constexpr const char* kStrategy = "sharding_strategy";
constexpr const char* kSplit = "mesh_allow_split_physical_axes";
constexpr const char* kAxis = "data";
constexpr double kLeastMegabytes = 4;  // the reference's default

using Pair = std::pair<std::string, std::string>;

// A list of pairs of strings, which Config does not know; nothing where there is something else.
std::vector<Pair> string_pairs(const Config& config, const char* key) {
  config.mark_read(key);
  const auto all = nlohmann::json::parse(config.json());
  const nlohmann::json& list = all.at(key);
  std::vector<Pair> pairs;
  if (!list.is_array()) return {};
  for (const auto& item : list) {
    const bool pair =
        item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string();
    if (!pair) return {};
    pairs.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
  }
  return pairs;
}

void read_mesh(const Config& config, int ranks) {
  const auto mesh = config.get<std::vector<std::pair<std::string, double>>>(kMesh, {{kAxis, -1}});
  int64_t product = 1;
  bool rest = false, data = false;
  for (const auto& [axis, size] : mesh) {
    if (size == -1 ? rest : !(size >= 1 && size <= 1e6 && size == std::floor(size))) {
      config.problem(kMesh, fmt::format("the size of axis '{}' must be a positive whole number, or "
                                        "-1 for one axis that takes what is left; got {}",
                                        axis, size));
      return;
    }
    if (axis != kAxis && size != 1) {
      config.problem(kMesh, fmt::format("there is one axis to share work over, '{}'; axis '{}' "
                                        "must have size 1",
                                        kAxis, axis));
      return;
    }
    if (axis == kAxis && std::exchange(data, true)) {
      config.problem(kMesh, "axis 'data' is there twice");
      return;
    }
    if (size == -1)
      rest = true;
    else
      product *= static_cast<int64_t>(size);
  }
  if (!data) {
    config.problem(kMesh, "has no axis 'data'");
  } else if (!rest && ranks > 1 && product != ranks) {  // one process takes any mesh
    config.problem(kMesh, fmt::format("its sizes multiply to {}, but there are {} processes; "
                                      "[[\"data\", -1]] takes all there are",
                                      product, ranks));
  }
}

void read_activation_rules(const Config& config) {
  if (!config.has(kRules)) return config.mark_read(kRules);
  if (string_pairs(config, kRules) != std::vector<Pair>{{"act_batch", kAxis}}) {
    config.problem(kRules,
                   "only [[\"act_batch\", \"data\"]] is there: a batch is cut over the "
                   "processes, activations are not cut otherwise");
  }
}

}  // namespace

Sharding::Sharding(const Config& config, int ranks) {
  read_mesh(config, ranks);
  read_activation_rules(config);
  if (config.get<bool>(kSplit, false))
    config.problem(kSplit, "true is not there: it is about the wiring of TPUs");
  attempt(config, [&] { read_strategy(config); });
}

void Sharding::read_strategy(const Config& config) {
  if (!config.has(kStrategy)) return config.mark_read(kStrategy);
  if (!config.is_list(kStrategy)) {
    return read_word(config,
                     config.word(kStrategy, "replicate", {"replicate", "zero1", "zero2", "fsdp"}));
  }
  const std::vector<Pair> pairs = string_pairs(config, kStrategy);
  if (pairs.empty())
    config.fail(kStrategy, "expected replicate, zero1, zero2, fsdp or a list of [pattern, tactic]");
  for (const auto& [pattern, tactic] : pairs) read_rule(config, pattern, tactic);
}

void Sharding::read_word(const Config& config, const std::string& word) {
  if (word == "zero1") all_ = ShardLevel::zero1;
  if (word == "zero2") all_ = ShardLevel::zero2;
  if (word == "fsdp") read_rule(config, ".*", "fsdp(axis='data')");
}

void Sharding::read_rule(const Config& config, const std::string& pattern,
                         const std::string& tactic) {
  if (const std::string why = Pattern::problem(pattern); !why.empty()) config.fail(kStrategy, why);
  Rule rule{Pattern(pattern)};
  const auto refuse = [&](const std::string& why) {
    config.fail(kStrategy, fmt::format("'{}': {}", tactic, why));
  };
  const std::vector<Call> calls = parse_calls(tactic, config, kStrategy);
  if (calls.empty()) refuse("expected replicate or fsdp(axis=\"data\")");
  for (const Call& call : calls) {
    if (rule.fsdp) refuse(fmt::format("{} after fsdp: it is sharded already", call.name));
    if (call.name == "shard_dim" || call.name == "logical_partitioning") {
      refuse(
          fmt::format("{} is not there: state is cut by ranges of flat buffers, whatever the "
                      "dimensions; use fsdp(axis=\"data\")",
                      call.name));
    }
    if (call.name == "fsdp") {
      const auto axes = call.args.is_list("axis")
                            ? call.args.get<std::vector<std::string>>("axis")
                            : std::vector<std::string>{call.args.get<std::string>("axis")};
      if (axes != std::vector<std::string>{kAxis}) refuse("the axis must be \"data\"");
      const auto megabytes = call.args.get<double>("min_size_to_shard_mb", kLeastMegabytes);
      if (!(megabytes >= 0)) refuse("min_size_to_shard_mb must not be negative");
      rule.fsdp = true;
      rule.least = megabytes * 0x1p20;
    } else if (call.name != "replicate") {
      refuse(unknown_name_message("tactic", call.name, {"fsdp", "replicate"}));
    }
    call.args.done();
  }
  rules_.push_back(std::move(rule));
}

bool Sharding::sharded(const std::string& name, int64_t bytes) const {
  for (const Rule& rule : rules_) {
    if (rule.pattern.matches(name)) return rule.fsdp && static_cast<double>(bytes) > rule.least;
  }
  return false;
}

ShardLevel Sharding::level(const std::string& parameter, int64_t bytes,
                           const std::vector<std::string>& slots) const {
  if (rules_.empty()) return all_;
  const std::string name = "params/" + parameter;
  const bool own = sharded(name, bytes);
  std::string like, unlike;
  for (const std::string& slot : slots) {
    const std::string state = "opt/" + slot + "/" + parameter;
    (sharded(state, bytes) == own ? like : unlike) = state;
  }
  if (unlike.empty()) return own ? ShardLevel::fsdp : ShardLevel::replicated;
  if (own) {
    throw Error::bare(
        Exit::usage,
        fmt::format("{} is sharded, so {} must be too: a rank updates what it has", name, unlike));
  }
  if (!like.empty()) {
    throw Error::bare(Exit::usage, fmt::format("{} is sharded but {} is not; an optimizer's state "
                                               "is shared out as a whole",
                                               unlike, like));
  }
  return ShardLevel::zero1;
}

}  // namespace bv
