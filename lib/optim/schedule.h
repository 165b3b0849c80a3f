// Learning rate schedules (reference section 7): a factor per step from a `schedule` section.
//
//   schedule: {decay_type: cosine, mult: 1.0, warmup_steps: 1000, cooldown_epochs: 2}
//
// Keys of every schedule: decay_type (default stair, which without steps is a constant), mult,
// scale_with_batchsize, and the durations warmup_* and cooldown_*. The rest belongs to the decay,
// one file each in decays/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/config/duration.h"
#include "lib/config/registry.h"

namespace bv {

// What a decay may know when it is built.
struct ScheduleEnv {
  RunLength length;
  double warmup = 0;  // steps, a real number
};

// The shape between warm-up and cool-down.
class Decay {
 public:
  using Registry = bv::Registry<Decay, ScheduleEnv>;
  static constexpr const char* kKind = "decay_type";
  virtual ~Decay() = default;
  // `base`: the value to decay from; `step`: 0-based count; `progress`: the share of the steps
  // after warm-up that is done, in [0, 1].
  virtual double value(double base, double step, double progress) const = 0;
};

class Schedule {
 public:
  // Throws Error(Exit::usage); unknown keys are recorded as problems.
  Schedule(const Config& config, const RunLength& length);
  // The factor of the update that follows `step` updates; 0 <= step <= total_steps.
  float operator()(int64_t step) const;

 private:
  double base_, warmup_, cooldown_;
  double total_;
  std::shared_ptr<const Decay> decay_;
};

}  // namespace bv
