#include "lib/ckpt/workdir/shared_workdir.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using std::chrono::steady_clock;

// How long to wait for the file to appear, in beats of the lock: 75 s. Network file systems may
// cache which names a folder has, NFS for 60 s by default.
constexpr int kPatience = 15;

// Returns the ranks that do not see the file.
std::vector<std::string> ranks_without(Group& group, bool sees) {
  std::vector<std::string> ranks;
  const std::vector<std::string> all = group.gather_text(sees ? "sees" : "", "workdir");
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) ranks.push_back(std::to_string(r));
  }
  return ranks;
}

std::string text_of(const std::vector<std::string>& ranks) {
  return fmt::format("rank{} {} do{} not see", ranks.size() == 1 ? "" : "s", join(ranks, ", "),
                     ranks.size() == 1 ? "es" : "");
}

}  // namespace

void check_shared(Group& group, const Workdir& workdir) {
  if (group.size() == 1) return;
  std::error_code error;
  const std::string file =
      group.gather_text(std::filesystem::absolute(workdir.lock(), error).string(), "workdir").at(0);
  const std::string holder =
      group.gather_text(WorkdirLock::holder(workdir.lock()), "workdir").at(0);
  const auto sees = [&] { return WorkdirLock::holder(workdir.lock()) == holder; };
  std::vector<std::string> ranks = ranks_without(group, sees());
  if (ranks.empty()) return;
  const double wait = kPatience * WorkdirLock::beat();
  if (group.rank() == 0)
    log::info("{}: {} this file yet: waiting up to {:.0f} s", file, text_of(ranks), wait);
  const auto end = steady_clock::now() + std::chrono::duration<double>(wait);
  while (!sees() && steady_clock::now() < end) {
    poll_signals();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ranks = ranks_without(group, sees());
  if (ranks.empty()) return;
  throw Error(
      Exit::usage, file,
      fmt::format("{} this file; with sharded state every rank saves its part, so --workdir "
                  "must be a folder that all ranks share",
                  text_of(ranks)));
}

}  // namespace bv
