// The key `profile`: what a few steps of a run spend their time on, recorded by lib/report/trace.h
// and written to trace/rank-<r>.json of the workdir, by each rank for itself.
#pragma once

#include <optional>

#include "lib/ckpt/workdir.h"
#include "lib/config/config.h"
#include "lib/distributed/group.h"

namespace bv {

struct ProfileSteps {
  int64_t first_step = 10, steps = 3;
};
// Nothing without the key. Records problems with the config.
std::optional<ProfileSteps> read_profile(const Config& config, int64_t total_steps);

class Profile {
 public:
  // Does nothing without `what`. `workdir` (null: no file, only lines in the log) and `group` must
  // outlive this.
  Profile(std::optional<ProfileSteps> what, const Workdir* workdir, const Group& group)
      : what_(what), workdir_(workdir), group_(group) {}
  ~Profile();
  Profile(const Profile&) = delete;

  // Before each step. Throws Error(Exit::storage) where the file can't be written.
  void at(int64_t step);
  void finish();  // behind the last one, whichever it is

 private:
  void write();

  const std::optional<ProfileSteps> what_;
  const Workdir* workdir_;
  const Group& group_;
  enum class State { waiting, running, done } state_ = State::waiting;
  int64_t sent_ = 0;  // by this rank until the first step
};

}  // namespace bv
