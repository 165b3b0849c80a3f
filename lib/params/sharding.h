// How much of the training state is sharded over the ranks: the config keys `mesh`,
// `sharding_rules`, `sharding_strategy` and `mesh_allow_split_physical_axes`, which follow
// sharding.py of big_vision. Does not use LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/util/pattern.h"

namespace bv {

// Which parts of a parameter's state are sharded, in the terms of ZeRO and FSDP: nothing; the
// optimizer state; the gradient as well; the parameter itself as well.
enum class ShardLevel { replicated, zero1, zero2, fsdp };

class Sharding {
 public:
  Sharding() = default;  // everything is replicated
  // Reads the keys and records problems with the config. The sizes of `mesh` must multiply to
  // `ranks`, unless `ranks` is 1.
  Sharding(const Config& config, int ranks);

  // Throws Error(Exit::usage) if `mesh` fixes the number of ranks, which a restart with --elastic
  // changes.
  static void check_elastic(const Config& config);

  // Returns the level of the parameter "head/kernel" of `bytes` bytes, of which the optimizer has
  // the state `slots`. Throws Error(Exit::usage) without a place if the patterns shard a
  // combination that is not a ShardLevel.
  ShardLevel level(const std::string& parameter, int64_t bytes,
                   const std::vector<std::string>& slots) const;
  // Returns the names that the patterns are matched against: params/head/kernel, and then
  // opt/<slot>/head/kernel for each slot.
  static std::vector<std::string> names(const std::string& parameter,
                                        const std::vector<std::string>& slots);
  // Returns whether the strategy shards arrays that are large enough.
  bool shards() const;
  // Returns the patterns that match none of `names`.
  std::vector<std::string> unmatched(const std::vector<std::string>& names) const;

 private:
  struct Rule {
    Pattern pattern;
    bool fsdp = false;     // false: replicate
    double min_bytes = 0;  // only what is larger than this is sharded
  };
  void read_strategy(const Config& config);
  void read_level_name(const Config& config, const std::string& word);
  void read_rule(const Config& config, const std::string& pattern, const std::string& tactic);
  bool is_sharded(const std::string& name, int64_t bytes) const;

  ShardLevel level_for_all_ = ShardLevel::replicated;  // if there are no rules
  std::vector<Rule> rules_;
};

}  // namespace bv
