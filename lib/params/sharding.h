// How the ranks of a run share its state out: the keys `mesh`, `sharding_rules`,
// `sharding_strategy` and `mesh_allow_split_physical_axes` (reference section 14). Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/util/pattern.h"

namespace bv {

// What of a parameter lies with one rank alone: nothing; its optimizer state; also its gradient;
// also the parameter.
enum class ShardLevel { replicated, zero1, zero2, fsdp };

class Sharding {
 public:
  Sharding() = default;  // everything is replicated
  // Records problems with the config. The mesh's sizes must multiply to `ranks`, unless that is 1.
  Sharding(const Config& config, int ranks);

  // For the parameter "head/kernel" of so many bytes, whose optimizer keeps the state
  // opt/<slot>/head/kernel for each slot. Throws Error(Exit::usage), whose text is only what is
  // wrong, where the patterns ask for something else than ShardLevel has.
  ShardLevel level(const std::string& parameter, int64_t bytes,
                   const std::vector<std::string>& slots) const;

 private:
  struct Rule {
    Pattern pattern;
    bool fsdp = false;  // else replicate
    double least = 0;   // bytes: only what is larger is sharded
  };
  void read_strategy(const Config& config);
  void read_word(const Config& config, const std::string& word);
  void read_rule(const Config& config, const std::string& pattern, const std::string& tactic);
  bool sharded(const std::string& name, int64_t bytes) const;

  ShardLevel all_ = ShardLevel::replicated;  // of the words zero1 and zero2
  std::vector<Rule> rules_;
};

}  // namespace bv
