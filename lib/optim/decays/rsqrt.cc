// rsqrt: base / sqrt(1 + (s - W + shift) / timescale) in step s after a warm-up of W steps;
// constant before. Follows "rsqrt" of utils.py `create_learning_rate_schedule` of big_vision.
//   schedule: {timescale: 10000,   in steps; or timescale_<unit>, a duration
//              shift: 0}           in steps; or shift_<unit>, a duration
#include <algorithm>
#include <cmath>

#include "lib/optim/not_negative.h"
#include "lib/optim/schedule.h"

namespace bv {
namespace {

class Rsqrt : public Decay {
 public:
  Rsqrt(const Config& config, const ScheduleEnv& env) : warmup_(env.warmup) {
    timescale_ = steps(config, "timescale", 10000, env);
    shift_ = steps(config, "shift", 0, env);
    if (!(timescale_ > 0)) config.problem("timescale", "must be positive");
    check_not_negative(config, "shift", shift_);
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
