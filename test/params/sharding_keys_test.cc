#include "lib/params/sharding.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "lib/util/error.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

constexpr int64_t kMega = 1 << 20;

std::string refused(const std::string& yaml, int ranks = 4) {
  const Config config = parse_config(yaml, "s.yaml");
  return error_of([&] {
    const Sharding sharding(config, ranks);
    config.done();
    throw_problems(config);
  });
}

ShardLevel level(const std::string& yaml, const std::string& name, int64_t bytes = 64 * kMega,
                 const std::vector<std::string>& slots = {"mu", "nu"}) {
  const Config config = parse_config(yaml, "s.yaml");
  const Sharding sharding(config, 4);
  config.done();
  throw_problems(config);
  return sharding.level(name, bytes, slots);
}

}  // namespace

TEST_CASE("sharding strategies: words and patterns") {
  CHECK(level("{}", "head/kernel") == ShardLevel::replicated);
  CHECK(level("sharding_strategy: replicate", "head/kernel") == ShardLevel::replicated);
  CHECK(level("sharding_strategy: zero1", "head/bias", 4) == ShardLevel::zero1);
  CHECK(level("sharding_strategy: zero2", "head/bias", 4) == ShardLevel::zero2);
  CHECK(level("sharding_strategy: fsdp", "head/kernel") == ShardLevel::fsdp);
  const std::string all = R"(sharding_strategy: [['.*', 'fsdp(axis="data")']])";
  CHECK(level(all, "head/kernel", 4 * kMega) == ShardLevel::replicated);  // not larger than 4 MiB
  CHECK(level(all, "head/kernel", 4 * kMega + 4) == ShardLevel::fsdp);
  const std::string small =
      R"(sharding_strategy: [['.*', 'fsdp(axis=["data"], min_size_to_shard_mb=0.5)']])";
  CHECK(level(small, "head/kernel", kMega / 2) == ShardLevel::replicated);
  CHECK(level(small, "head/kernel", kMega) == ShardLevel::fsdp);
}

TEST_CASE("the first pattern that matches a whole name wins") {
  const std::string yaml = R"(
sharding_strategy:
- ['.*/head/.*', replicate]
- ['params/.*|opt/.*', 'replicate|fsdp("data", 0)']
)";
  CHECK(level(yaml, "head/kernel") == ShardLevel::replicated);
  CHECK(level(yaml, "ahead/kernel") == ShardLevel::fsdp);
  CHECK(level("sharding_strategy: [['params', 'fsdp(axis=\"data\")']]", "head/kernel") ==
        ShardLevel::replicated);
  CHECK(level(R"(sharding_strategy: [['opt/.*', 'fsdp(axis="data")']])", "head/kernel") ==
        ShardLevel::zero1);
  CHECK(level(R"(sharding_strategy: [['params/.*', 'fsdp(axis="data")']])", "a", 64 * kMega, {}) ==
        ShardLevel::fsdp);  // frozen, or an optimizer without state
}

TEST_CASE("whether a strategy shards large arrays") {
  const auto shards = [](const std::string& yaml) {
    return Sharding(parse_config(yaml, "s.yaml"), 4).shards();
  };
  CHECK_FALSE(shards("{}"));
  CHECK_FALSE(shards("sharding_strategy: [['.*', replicate]]"));
  CHECK(shards("sharding_strategy: zero1"));
  CHECK(shards("sharding_strategy: fsdp"));
}

TEST_CASE("patterns that match no name are found") {
  const Config config = parse_config(
      "sharding_strategy: [['head/.*', replicate], ['opt/nu/.*', replicate], ['.*', replicate]]",
      "s.yaml");
  const Sharding sharding(config, 4);
  CHECK(sharding.unmatched(Sharding::names("head/kernel", {"mu", "nu"})) ==
        std::vector<std::string>{"head/.*"});
  CHECK(sharding.unmatched(Sharding::names("head/kernel", {})) ==
        std::vector<std::string>{"head/.*", "opt/nu/.*"});
}

TEST_CASE("combinations of sharded state that are impossible are named") {
  const auto line = [](const std::string& yaml) {
    try {
      level(yaml, "head/kernel");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(line(R"(sharding_strategy: [['params/.*', 'fsdp(axis="data")']])") ==
        "params/head/kernel is sharded, so opt/nu/head/kernel must be too: a rank updates what it "
        "holds");
  CHECK(line(R"(sharding_strategy: [['opt/mu/.*', 'fsdp(axis="data")']])") ==
        "opt/mu/head/kernel is sharded but opt/nu/head/kernel is not; either all or none of a "
        "parameter's optimizer state is sharded");
}

TEST_CASE("unsupported sharding is refused with its name and place") {
  const std::string strategy = "s.yaml:1:20: error: sharding_strategy";
  CHECK(refused("sharding_strategy: zero3") ==
        strategy +
            ": expected one of replicate, zero1, zero2, fsdp, got 'zero3' (did you mean 'zero1'?)");
  CHECK(
      refused("sharding_strategy: [['.*', 'shard_dim(\"data\", -1)']]") ==
      strategy +
          ": 'shard_dim(\"data\", -1)': shard_dim is not supported: state is sharded by ranges of "
          "flat buffers, not by dimension; use fsdp(axis=\"data\")");
  CHECK(refused("sharding_strategy: [['.*', logical_partitioning]]") ==
        strategy +
            ": 'logical_partitioning': logical_partitioning is not supported: state is sharded by "
            "ranges of flat buffers, not by dimension; use fsdp(axis=\"data\")");
  CHECK(refused("sharding_strategy: [['.*', 'fsdp(axis=\"model\")']]") ==
        strategy + ": 'fsdp(axis=\"model\")': the axis must be \"data\"");
  CHECK(refused("sharding_strategy: [['.*', 'fsdp(axis=\"data\")|replicate']]") ==
        strategy +
            ": 'fsdp(axis=\"data\")|replicate': replicate after fsdp: it is sharded already");
  CHECK(refused("sharding_strategy: [['.*', 'fsdb(axis=\"data\")']]").find("did you mean 'fsdp'") !=
        std::string::npos);
  CHECK(refused("sharding_strategy: [['(', replicate]]").find("the pattern '('") !=
        std::string::npos);
  CHECK(refused("sharding_strategy: []") ==
        strategy + ": expected replicate, zero1, zero2, fsdp or a list of [pattern, tactic]");
  CHECK(refused("sharding_strategy: [[a, replicate], [a, b, c]]") ==
        "s.yaml:1:37: error: sharding_strategy[1]: expected [string, string], got a list");
  CHECK(refused("sharding_rules: [data]") ==
        "s.yaml:1:18: error: sharding_rules[0]: expected [string, string], got 'data'");
  CHECK(refused("sharding_rules: [[act_batch, data]]") == "");
  CHECK(refused("sharding_rules: [[act_batch, [data]]]") == "");  // as big_vision writes it
  CHECK(refused("sharding_strategy: [['/head/.*', replicate]]") ==
        strategy +
            ": the pattern '/head/.*' starts with '/', but no parameter's name does; drop "
            "the '/'");
  CHECK(refused("sharding_rules: [[act_len, data]]")
            .find("s.yaml:1:17: error: sharding_rules: only "
                  "[[\"act_batch\", \"data\"]]") == 0);
  CHECK(refused("mesh_allow_split_physical_axes: false") == "");
  CHECK(refused("mesh_allow_split_physical_axes: true") ==
        "s.yaml:1:33: error: mesh_allow_split_physical_axes: true is not supported: it concerns "
        "the topology of TPUs");
}

TEST_CASE("explain shows the sharding keys, given or not") {
  const auto explained = [](const std::string& yaml) {
    const Config config = parse_config(yaml, "s.yaml");
    const Sharding sharding(config, 4);
    return explain(config);
  };
  const auto shows = [](const std::string& table, const std::string& row) {
    CHECK(table.find("\n" + row) != std::string::npos);
  };
  const std::string none = explained("{}");
  shows(none, "sharding_strategy               replicate");
  shows(none, "sharding_rules                  [[act_batch, data]]");
  const std::string given =
      explained("sharding_strategy: [[head, replicate]]\nsharding_rules: [[act_batch, data]]\n");
  shows(given, "sharding_strategy               [[head, replicate]]");
  CHECK(given.find("s.yaml:1 ") != std::string::npos);
  CHECK(given.find("s.yaml:2 ") != std::string::npos);
}

TEST_CASE("a mesh has as many devices as there are processes") {
  CHECK(refused("mesh: [[data, -1]]") == "");
  CHECK(refused("mesh: [[data, 4]]") == "");
  CHECK(refused("mesh: [[data, 2]]", 2) == "");
  CHECK(refused("mesh: [[data, 8]]", 1) == "");  // a single process accepts any mesh
  CHECK(refused("mesh: [[replica, 1], [data, -1]]") == "");
  CHECK(refused("mesh: [[data, 8]]") ==
        "s.yaml:1:7: error: mesh: its sizes multiply to 8, but there are 4 processes; "
        "[[\"data\", -1]] takes all of them");
  CHECK(refused("mesh: [[data, 2], [model, 2]]") ==
        "s.yaml:1:7: error: mesh: work is split over the axis 'data' only; axis 'model' must have "
        "size 1");
  CHECK(refused("mesh: [[data, 0]]").find("the size of axis 'data' must be a positive") !=
        std::string::npos);
  CHECK(refused("mesh: [[data, 2], [data, 2]]") ==
        "s.yaml:1:7: error: mesh: axis 'data' is given twice");
  CHECK(refused("mesh: [[model, 1]]") == "s.yaml:1:7: error: mesh: has no axis 'data'");
}

TEST_CASE("--elastic refuses a mesh that fixes the number of processes") {
  const auto elastic = [](const std::string& yaml) {
    return error_of([&] { Sharding::check_elastic(parse_config(yaml, "s.yaml")); });
  };
  CHECK(elastic("seed: 1") == "");
  CHECK(elastic("mesh: [[replica, 1], [data, -1]]") == "");
  CHECK(elastic("mesh: [[data, 4]]") ==
        "s.yaml:1:7: error: mesh: its sizes fix the number of processes, which --elastic changes; "
        "write [[\"data\", -1]]");
}

}  // namespace bv::test
