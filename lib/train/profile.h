// The key `profile`: records how a few steps of a run spend their time (lib/report/trace.h). Each
// rank writes its own record to trace/rank-<r>.json in the workdir.
#pragma once

#include <c10/core/Device.h>

#include <optional>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/config.h"
#include "lib/distributed/group.h"

namespace bv {

struct ProfileSteps {
  int64_t first_step = 10, steps = 3;
};
// Returns nullopt if the config has no key `profile`. Records problems with the config.
std::optional<ProfileSteps> read_profile(const Config& config, int64_t total_steps);

class Profile {
 public:
  // Records nothing if `what` is empty. With a null `workdir` the results only go to the log.
  // `workdir` and `group` must outlive this.
  Profile(std::optional<ProfileSteps> what, const Workdir* workdir, const Group& group,
          c10::Device device)
      : what_(what), workdir_(workdir), group_(group), device_(device) {}
  ~Profile();
  Profile(const Profile&) = delete;

  // Called before each step. Throws Error(Exit::storage) if the file cannot be written.
  void at(int64_t step);
  // Called after the last step that the run does.
  void finish();

 private:
  void write();

  const std::optional<ProfileSteps> what_;
  const Workdir* workdir_;
  const Group& group_;
  const c10::Device device_;
  enum class State { waiting, running, done } state_ = State::waiting;
  int64_t sent_before_ = 0;  // bytes that this rank had sent when the recording began
};

}  // namespace bv
