// Inside the room: readers of each launcher's environment, used by place.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/distributed/launch/rank_layout.h"

namespace bv {

constexpr int kMostRanks = 65536;

// An environment read strictly. Empty variables count as absent.
class Environment {
 public:
  explicit Environment(const EnvironmentMap& map) : map_(map) {}

  bool has(const std::string& name) const { return find(name).has_value(); }
  std::optional<std::string> find(const std::string& name) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  // Throws Error(Exit::usage) "NAME=value: error: ..." for no number or one outside [low, high].
  std::optional<int> number(const std::string& name, int low, int high) const;
  // As above; an absent one is an error that says `of` whose variables it belongs to.
  int required(const std::string& name, int low, int high, std::string_view of) const;
  // The first of `names` that is there, else "".
  std::string first(const std::vector<std::string>& names) const;

 private:
  const EnvironmentMap& map_;
};

// "NAME=value", for the place of an error.
std::string shown(const std::string& name, std::string_view value);
void check_rank(const std::string& rank_name, int rank, const std::string& size_name, int size);
// A port that every rank derives alike from the job's name: 10000 to 29999, below the ports that
// the kernel hands out.
int derived_port(std::string_view job);

// Each returns nothing where its launcher left no trace. `needed` (--launcher): then that is an
// error.
std::optional<RankLayout> place_of_own_launcher(const Environment&);
std::optional<RankLayout> place_of_torchrun(const Environment&, bool needed);
std::optional<RankLayout> place_of_slurm(const Environment&, bool needed);
std::optional<RankLayout> place_of_mpi(const Environment&, const RankLayoutOptions&, bool needed);

}  // namespace bv
