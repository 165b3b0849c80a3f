// Durations in a config, and the rule for when an action is due.
//
// A duration `x` is given by one of the keys x_steps, x_examples, x_epochs and x_percent (of the
// total steps; a fraction in [0, 1]), and by x_seconds where a caller allows it. From big_vision's
// utils.py, functions `steps` and `itstime`; the rule for seconds from JAXline's utils.py.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace bv {

// The numbers with which durations are converted to steps; 0 if unknown.
struct RunLength {
  int64_t batch_size = 0;
  int64_t data_size = 0;  // examples of an epoch
  int64_t total_steps = 0;
  // A number above is a placeholder for one that is missing or wrong in the config, so that the
  // other keys can be read. Comparisons between durations are then meaningless.
  bool made_up = false;
  // total_steps is 0 because nothing is trained, not because it is unknown.
  bool no_training = false;
};

// Rounds as big_vision's `steps` does: 0 for 0, otherwise half to even and at least 1.
int64_t round_steps(double x);

// Returns the duration `name` of `config` in steps, or nullopt if it is not given. Null and
// negative values count as absent. Throws Error(Exit::usage) if it is given in two units, if a
// percentage is outside [0, 1], if x_steps is not an integer, or if `length` lacks a number that
// the unit needs.
std::optional<int64_t> duration_steps(const Config& config, std::string_view name,
                                      const RunLength& length,
                                      std::source_location where = std::source_location::current());
// The same, but x_steps may be any real number. As in big_vision, schedules use it unrounded.
std::optional<double> duration_real(const Config& config, std::string_view name,
                                    const RunLength& length,
                                    std::source_location where = std::source_location::current());

// Records a problem for the required duration `name`, which is not given: `why`, or that its value
// is negative. Does nothing if one of its keys has a problem already, or is misspelt. `in_seconds`:
// x_seconds is one of its keys, too.
void missing_duration(const Config& config, std::string_view name, std::string_view why,
                      bool in_seconds = false);

// An interval in steps or in seconds.
struct Every {
  int64_t steps = 0;   // 0 if it is not given in steps
  double seconds = 0;  // 0 if it is not given in seconds
  explicit operator bool() const { return steps > 0 || seconds > 0; }
};
// Returns the interval `name`, which may also be given as x_seconds; nullopt if it is not given.
std::optional<Every> duration_every(const Config& config, std::string_view name,
                                    const RunLength& length,
                                    std::source_location where = std::source_location::current());

// Returns whether something that happens every `every` steps is due at `step` of `total`: at each
// multiple of `every` except those closer to the last step than drop_close_to_last * every, with
// `last` at the last step and with `first` at step 1. Never if `every` is 0 or less.
bool itstime(int64_t step, int64_t every, int64_t total, bool last = true, bool first = true,
             double drop_close_to_last = 0.25);

// Says when an interval is due: itstime() for steps; for seconds, when at least that much time has
// passed since it was last due, and with `last` and `first` also at the last and first step.
class Due {
 public:
  Due(Every every, int64_t total_steps, bool last, bool first);
  // Returns whether it is due at `step`. `now` is a monotonic time in seconds. Call it once a step:
  // the first call starts the clock.
  bool operator()(int64_t step, double now);

 private:
  Every every_;
  int64_t total_;
  bool last_, first_;
  double previous_ = -1;  // when it was last due; -1 before the first call
};

// Returns a time as text: "42s", "3m12s", "5h7m", "2d3h5m" (utils.py, `hms`).
std::string hms(double seconds);
// The same, rounded to the nearest whole second, for people. hms() splits off the minutes before it
// rounds the seconds, so it returns "7m60s" for 479.7 seconds; this returns "8m0s".
std::string duration_text(double seconds);

// Returns whether `step` is ratio * 10^k for one of the ratios, where 10^k is the largest power of
// ten up to `step`. The product is rounded, halves to the even number (JAXline's utils.py,
// PeriodicAction._apply_condition).
bool is_growth_step(int64_t step, const std::vector<double>& ratios);

}  // namespace bv
