// Learning rate schedules: the factor of each step, from a section `schedule`. Follows utils.py
// `create_learning_rate_schedule` of big_vision.
// Each decay is a file in lib/optim/decays/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/config/duration.h"
#include "lib/config/key_table.h"
#include "lib/config/registry.h"

namespace bv {

// What the constructor of a Decay gets besides its config section.
struct ScheduleEnv {
  RunLength length;
  double warmup = 0;  // in steps; need not be an integer
};

// Returns the duration `name` in steps; nullopt if it is absent. Records a problem if it is
// negative: elsewhere a negative duration counts as absent, but in a schedule it is more likely a
// mistake.
std::optional<double> schedule_duration(const Config& config, const std::string& name,
                                        const RunLength& length);

// The shape of a schedule between warm-up and cool-down.
class Decay {
 public:
  using Registry = bv::Registry<Decay, ScheduleEnv>;
  static constexpr const char* kKind = "decay_type";
  virtual ~Decay() = default;
  // Returns the value to which `base` has decayed. `step` counts the updates done; `progress` in
  // [0, 1] is how much of the steps after the warm-up is done.
  virtual double value(double base, double step, double progress) const = 0;
};

class Schedule {
 public:
  // Throws Error(Exit::usage), or records problems with the config.
  Schedule(const Config& config, const RunLength& length);
  // Returns the factor for the next update after `step` updates, 0 <= step <= total_steps. The
  // last update of a run has step total_steps - 1, so the value at total_steps, such as the 0 of a
  // cool-down, is never used.
  float operator()(int64_t step) const;

 private:
  double base_, warmup_ = 0, cooldown_ = 0;
  double total_;
  std::shared_ptr<const Decay> decay_;
};

}  // namespace bv
