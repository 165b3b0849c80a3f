#include "lib/params/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/config/call.h"
#include "lib/config/key_table.h"

namespace bv {
namespace {

const KeyTable sharding_keys(
    "", {"", "", "sharding.py"},
    {{"sharding_strategy", "'replicate' | 'zero1' | 'zero2' | 'fsdp' | list of [string, string]",
      "replicate",
      "What is sharded across processes to save memory: nothing with `replicate`; the optimizer "
      "state with `zero1`; also the gradients with `zero2`; also the weights with `fsdp`, which "
      "communicates more and shards only arrays of more than 4 MiB. Results stay the same up to "
      "rounding. A list chooses by name, as in "
      "big_vision: [regular expression, `replicate` or `fsdp(...)`]. Names are "
      "`params/<parameter>` and `opt/<slot>/<parameter>`. An expression must match the whole name, "
      "the first match counts, and arrays that match none are not sharded. The state of sharded "
      "weights must be sharded too.",
      "[['.*', 'fsdp(axis=\"data\", min_size_to_shard_mb=1)']]"},
     {"mesh", "list of [string, int]", "[[data, -1]]",
      "Arrangement of the processes, for compatibility with big_vision's configs: a list of [axis, "
      "number of processes]. -1 stands for all remaining processes. The product must be the number "
      "of processes, and only the axis `data` may have more than one. `--elastic` needs a -1. "
      "Leave it out otherwise."},
     {"sharding_rules", "list of [string, string]", "[[act_batch, data]]",
      "Only the default is accepted, also as big_vision writes it, `[[act_batch, [data]]]`: the "
      "images of a batch are split across processes."},
     {"mesh_allow_split_physical_axes", "'false'", "false",
      "Only `false` is accepted, because the key concerns the topology of TPUs."}});

const KeyTable replicate_keys("sharding_strategy: replicate",
                              {"Every process keeps the whole array.", "replicate", "sharding.py"},
                              {});

const KeyTable fsdp_keys(
    "sharding_strategy: fsdp",
    {"Every process keeps an equal shard of each array.",
     "fsdp(axis=\"data\", min_size_to_shard_mb=1)", "sharding.py"},
    {{"axis", "'data' | list of 'data'", "required",
      "Mesh axis over which the arrays are sharded. Only \"data\" is accepted."},
     {"min_size_to_shard_mb", "float >= 0", "4",
      "Arrays of at most this size in MiB are not sharded, because small messages cost more time "
      "than the memory is worth. The size is that of the weight in float32, also for its optimizer "
      "state."}});

constexpr const char* kMesh = "mesh";
constexpr const char* kRules = "sharding_rules";
constexpr const char* kStrategy = "sharding_strategy";
constexpr const char* kSplit = "mesh_allow_split_physical_axes";
constexpr const char* kAxis = "data";
constexpr double kLeastMegabytes = 4;  // default of min_size_to_shard_mb in sharding.py

using StringPairs = std::vector<std::pair<std::string, std::string>>;
using Mesh = std::vector<std::pair<std::string, double>>;

void read_mesh(const Config& config, int ranks) {
  const auto mesh = config.get<Mesh>(kMesh, {{kAxis, -1}});
  int64_t product = 1;
  bool rest = false, data = false;
  for (const auto& [axis, size] : mesh) {
    if (size == -1 ? rest : !(size >= 1 && size <= 1e6 && size == std::floor(size))) {
      config.problem(kMesh, fmt::format("the size of axis '{}' must be a positive integer, or -1 "
                                        "for one axis that takes all remaining processes; got {}",
                                        axis, size));
      return;
    }
    if (axis != kAxis && size != 1) {
      config.problem(
          kMesh, fmt::format("work is split over the axis '{}' only; axis '{}' must have size 1",
                             kAxis, axis));
      return;
    }
    if (axis == kAxis && std::exchange(data, true)) {
      config.problem(kMesh, "axis 'data' is given twice");
      return;
    }
    if (size == -1)
      rest = true;
    else
      product *= static_cast<int64_t>(size);
  }
  if (!data) {
    config.problem(kMesh, "has no axis 'data'");
  } else if (!rest && ranks > 1 && product != ranks) {  // a single process accepts any mesh
    config.problem(kMesh, fmt::format("its sizes multiply to {}, but there are {} processes; "
                                      "[[\"data\", -1]] takes all of them",
                                      product, ranks));
  }
}

void read_activation_rules(const Config& config) {
  // big_vision's configs write [('act_batch', ('data',))].
  if (config.has(kRules) && nlohmann::json::parse(config.json(kRules)) ==
                                nlohmann::json::parse(R"([["act_batch", ["data"]]])"))
    return config.mark_read(kRules);
  const StringPairs only = {{"act_batch", kAxis}};
  if (config.get(kRules, only) != only) {
    config.problem(
        kRules,
        "only [[\"act_batch\", \"data\"]] is supported: activations are sharded over the "
        "batch and in no other way");
  }
}

}  // namespace

Sharding::Sharding(const Config& config, int ranks) {
  read_mesh(config, ranks);
  read_activation_rules(config);
  if (config.get<bool>(kSplit, false))
    config.problem(kSplit, "true is not supported: it concerns the topology of TPUs");
  attempt(config, [&] { read_strategy(config); });
}

void Sharding::check_elastic(const Config& config) {
  const auto mesh = config.get<Mesh>(kMesh, {{kAxis, -1}});
  if (std::none_of(mesh.begin(), mesh.end(), [](const auto& axis) { return axis.second == -1; }))
    config.fail(kMesh,
                "its sizes fix the number of processes, which --elastic changes; write "
                "[[\"data\", -1]]");
}

void Sharding::read_strategy(const Config& config) {
  if (!config.is_list(kStrategy)) {
    return read_level_name(
        config, config.word(kStrategy, "replicate", {"replicate", "zero1", "zero2", "fsdp"}));
  }
  const auto pairs = config.get<StringPairs>(kStrategy);
  if (pairs.empty())
    config.fail(kStrategy, "expected replicate, zero1, zero2, fsdp or a list of [pattern, tactic]");
  for (const auto& [pattern, tactic] : pairs) read_rule(config, pattern, tactic);
}

void Sharding::read_level_name(const Config& config, const std::string& word) {
  if (word == "zero1") level_for_all_ = ShardLevel::zero1;
  if (word == "zero2") level_for_all_ = ShardLevel::zero2;
  if (word == "fsdp") read_rule(config, ".*", "fsdp(axis='data')");
}

void Sharding::read_rule(const Config& config, const std::string& pattern,
                         const std::string& tactic) {
  if (const std::string why = Pattern::name_problem(pattern); !why.empty())
    config.fail(kStrategy, why);
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
          fmt::format("{} is not supported: state is sharded by ranges of flat buffers, not by "
                      "dimension; use fsdp(axis=\"data\")",
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
      rule.min_bytes = megabytes * 0x1p20;
    } else if (call.name != "replicate") {
      refuse(unknown_name_message("tactic", call.name, {"fsdp", "replicate"}));
    }
    call.args.done();
  }
  rules_.push_back(std::move(rule));
}

bool Sharding::is_sharded(const std::string& name, int64_t bytes) const {
  for (const Rule& rule : rules_) {
    if (rule.pattern.matches(name)) return rule.fsdp && static_cast<double>(bytes) > rule.min_bytes;
  }
  return false;
}

bool Sharding::shards() const {
  return level_for_all_ != ShardLevel::replicated ||
         std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return rule.fsdp; });
}

std::vector<std::string> Sharding::names(const std::string& parameter,
                                         const std::vector<std::string>& slots) {
  std::vector<std::string> all = {"params/" + parameter};
  for (const std::string& slot : slots) all.push_back("opt/" + slot + "/" + parameter);
  return all;
}

std::vector<std::string> Sharding::unmatched(const std::vector<std::string>& names) const {
  std::vector<std::string> patterns;
  for (const Rule& rule : rules_) {
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return rule.pattern.matches(name); }))
      patterns.push_back(rule.pattern.text());
  }
  return patterns;
}

ShardLevel Sharding::level(const std::string& parameter, int64_t bytes,
                           const std::vector<std::string>& slots) const {
  if (rules_.empty()) return level_for_all_;
  const std::vector<std::string> all = names(parameter, slots);
  const std::string& name = all[0];
  const bool parameter_sharded = is_sharded(name, bytes);
  std::string same, other;
  for (size_t i = 1; i < all.size(); ++i)
    (is_sharded(all[i], bytes) == parameter_sharded ? same : other) = all[i];
  if (other.empty()) return parameter_sharded ? ShardLevel::fsdp : ShardLevel::replicated;
  if (parameter_sharded) {
    throw Error::bare(
        Exit::usage,
        fmt::format("{} is sharded, so {} must be too: a rank updates what it holds", name, other));
  }
  if (!same.empty()) {
    throw Error::bare(Exit::usage, fmt::format("{} is sharded but {} is not; either all or none "
                                               "of a parameter's optimizer state is sharded",
                                               other, same));
  }
  return ShardLevel::zero1;
}

}  // namespace bv
