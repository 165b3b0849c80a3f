// Private to rank_layout.cc: reads the environment variables that each launcher sets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/distributed/launch/rank_layout.h"

namespace bv {

constexpr int kMostRanks = 65536;

// Strict access to environment variables. An empty variable counts as missing.
class Environment {
 public:
  explicit Environment(const EnvironmentMap& map) : map_(map) {}

  bool has(const std::string& name) const { return find(name).has_value(); }
  std::optional<std::string> find(const std::string& name) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  // Returns nothing if the variable is missing. Throws Error(Exit::usage) "NAME=value: error: ..."
  // if it is not an integer from `low` to `high`.
  std::optional<int> number(const std::string& name, int low, int high) const;
  // As number(), but throws if the variable is missing. The message names `of`, the variables that
  // it belongs to.
  int required(const std::string& name, int low, int high, std::string_view of) const;
  // Returns the value of the first of `names` that is set, or "".
  std::string first(const std::vector<std::string>& names) const;

 private:
  const EnvironmentMap& map_;
};

// Returns "NAME=value", with which error messages begin.
std::string shown(const std::string& name, std::string_view value);
// Throws Error(Exit::usage) unless rank < size.
void check_rank(const std::string& rank_name, int rank, const std::string& size_name, int size);
// Returns a port that all ranks derive from the job's name in the same way: 10000 to 29999, below
// the ports that the kernel assigns.
int derived_port(std::string_view job);

// Each returns nothing if its launcher has not started this process. With `needed`, because
// --launcher names it, it throws Error(Exit::usage) instead.
std::optional<RankLayout> own_launcher_layout(const Environment&);
std::optional<RankLayout> torchrun_layout(const Environment&, bool needed);
std::optional<RankLayout> slurm_layout(const Environment&, bool needed);
std::optional<RankLayout> mpi_layout(const Environment&, const RankLayoutOptions&, bool needed);

}  // namespace bv
