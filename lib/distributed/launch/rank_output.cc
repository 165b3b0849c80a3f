#include "lib/distributed/launch/rank_output.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/report/chrono.h"
#include "lib/report/console.h"

namespace bv {

// A rank that still runs long after an error line has not failed because of it.
void RankOutput::pass(bool failed) {
  for (RankProcess& process : ranks_) {
    pass_output(process);
    const bool held = !process.held_lines.empty() && process.pid > 0 && !failed;
    if (held && monotonic_seconds() - process.held_since > hold_period_) print_once(process);
  }
}

// Whether `line` only repeats the error of a rank of this host, which has printed it itself.
bool RankOutput::already_printed(const std::string& line) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const RankProcess& process) {
    return !process.killed_by_us() &&
           line.starts_with(fmt::format("[distributed] rank {} ", process.rank)) &&
           line.find(fmt::format(" ended with exit code {}: ", process.code)) != std::string::npos;
  });
}

// Prints the lines of a rank that are held back, except lines that were printed for another rank.
void RankOutput::print_once(RankProcess& process) {
  for (const std::string& line : process.held_lines) {
    const int rank = printed_.emplace(line, process.rank).first->second;
    if (rank != process.rank || already_printed(line)) continue;
    const bool names_ranks = line.starts_with("[distributed] ");
    console::write(
        fmt::format("{}{}\n", names_ranks ? "" : fmt::format("[rank {}] ", process.rank), line));
  }
  process.held_lines.clear();
}

void RankOutput::print_last() {
  if (ranks_.empty()) return;
  const RankProcess& first = ranks_.front();
  for (RankProcess& process : ranks_) {
    const bool as_first = first.stderr_fd < 0 && process.code == first.code && process.code != 0;
    if (process.killed_by_us() || as_first) process.held_lines.clear();
    print_once(process);
  }
}

}  // namespace bv
