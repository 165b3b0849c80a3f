// rsqrt: base / sqrt(1 + (s + shift - W) / timescale) after the warm-up of W steps, constant
// before. Keys: timescale (10000) and shift (0) in steps, or as durations timescale_*, shift_*.
#include <algorithm>
#include <cmath>

#include "lib/optim/schedule.h"

namespace bv {
namespace {

class Rsqrt : public Decay {
 public:
  Rsqrt(const Config& config, const ScheduleEnv& env) : warmup_(env.warmup) {
    timescale_ = steps(config, "timescale", 10000, env);
    shift_ = steps(config, "shift", 0, env);
    if (!(timescale_ > 0)) config.problem("timescale", "must be positive");
  }
  double value(double base, double step, double) const override {
    return base / std::sqrt(1.0 + (std::max(step - warmup_, 0.0) + shift_) / timescale_);
  }

 private:
  static double steps(const Config& config, const std::string& name, double fallback,
                      const ScheduleEnv& env) {
    const double plain = config.get<double>(name, fallback);
    return duration_real(config, name, env.length).value_or(plain);
  }
  double warmup_, timescale_, shift_;
};
const Register<Decay, Rsqrt> registered("rsqrt");

}  // namespace
}  // namespace bv
