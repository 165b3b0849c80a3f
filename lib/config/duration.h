// Durations: X_steps | X_examples | X_epochs | X_percent (reference section 2.1), and X_seconds
// where a caller allows it; and the rule when something is due (section 2.2).
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>

#include "lib/config/config.h"

namespace bv {

// What durations are converted with; 0 = unknown.
struct RunLength {
  int64_t batch_size = 0;
  int64_t data_size = 0;
  int64_t total_steps = 0;
};

// R(x) of section 2.1: 0 for 0, else max(1, round half to even).
int64_t round_steps(double x);

// The duration `name` of `config` in steps; nullopt where none is given. A null or negative value
// counts as absent. Problems (two units, a percentage outside [0, 1], a unit whose ingredient is
// unknown and nothing else given) are thrown as Error(Exit::usage).
std::optional<int64_t> duration_steps(const Config& config, std::string_view name,
                                      const RunLength& length,
                                      std::source_location where = std::source_location::current());
// X_steps is not rounded in the reference: schedules see it as a real number.
std::optional<double> duration_real(const Config& config, std::string_view name,
                                    const RunLength& length,
                                    std::source_location where = std::source_location::current());

// An interval in steps or in seconds.
struct Every {
  int64_t steps = 0;   // 0 = never by steps
  double seconds = 0;  // 0 = never by the clock
  explicit operator bool() const { return steps > 0 || seconds > 0; }
};
std::optional<Every> duration_every(const Config& config, std::string_view name,
                                    const RunLength& length,
                                    std::source_location where = std::source_location::current());

// Section 2.2.
bool itstime(int64_t step, int64_t every, int64_t total, bool last = true, bool first = true,
             double drop_close_to_last = 0.25);

// JAXline's rule for seconds: due when `now` is at least `seconds` past the last time it was.
class Due {
 public:
  Due(Every every, int64_t total_steps, bool last, bool first);
  // Whether it is time at `step`; `now` is the monotonic time in seconds. Call once a step.
  bool operator()(int64_t step, double now);
  const Every& every() const { return every_; }

 private:
  Every every_;
  int64_t total_;
  bool last_, first_;
  double previous_ = -1;  // first call starts the clock
};

// "3m12s": section 3.
std::string hms(double seconds);

}  // namespace bv
