// What the launcher prints of the stderr of its ranks: each error line once, although usually all
// ranks report the same error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/distributed/launch/rank_process.h"

namespace bv {

class RankOutput {
 public:
  // `ranks` are those of this host and must outlive the object. `hold_period`:
  // LaunchOptions::hold_period.
  RankOutput(std::vector<RankProcess>& ranks, double hold_period)
      : ranks_(ranks), hold_period_(hold_period) {}

  // Forgets which lines were printed. Call it before ranks are started.
  void clear() { printed_.clear(); }
  // Passes on what the quiet ranks have printed. Their error lines are held back; if no rank has
  // `failed`, those of a rank that still runs are printed after the hold period.
  void pass(bool failed);
  // Prints the lines that are still held back. Drops the lines of ranks that this launcher has
  // killed, and of ranks that failed with the same code as the first rank here: that rank prints
  // its own lines.
  void print_last();

 private:
  bool already_printed(const std::string& line) const;
  void print_once(RankProcess& process);

  std::vector<RankProcess>& ranks_;
  const double hold_period_;            // seconds
  std::map<std::string, int> printed_;  // error lines, each with the rank that first printed it
};

}  // namespace bv
