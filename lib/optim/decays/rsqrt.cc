// rsqrt: base / sqrt(1 + (s - W + shift) / timescale) in step s after a warm-up of W steps;
// constant before. Follows "rsqrt" of utils.py `create_learning_rate_schedule` of big_vision.
#include <algorithm>
#include <cmath>
#include <string>

#include "lib/optim/not_negative.h"
#include "lib/optim/schedule.h"

namespace bv {
namespace {

const KeyTable rsqrt_keys(
    "schedule: rsqrt",
    {"Falls with the inverse square root of the completed steps and never reaches 0: in step s "
     "after the warm-up the value is `mult` / sqrt(1 + (s + shift) / timescale). The values do not "
     "depend on the length of the run, so a run can be extended; add a `cooldown_*` to end at 0.",
     "warmup_steps: 10000\ncooldown_steps: 50000", "utils.py create_learning_rate_schedule"},
    {{"timescale", "float > 0", "10000",
      "Number of steps after the warm-up until the value has fallen to 0.71 of its start. After "
      "three times as many steps it is half."},
     {"timescale_{steps,examples,epochs,percent}", "float > 0", "none",
      "Replaces `timescale`, in a unit of your choice; `percent` is a fraction of the run, from 0 "
      "to 1. Give one unit.",
      "10000"},
     {"shift", "float >= 0", "0",
      "Number of steps to shift the decay by, as if they were done before the run. The value then "
      "starts lower and falls more slowly."},
     {"shift_{steps,examples,epochs,percent}", "float >= 0", "none",
      "Replaces `shift`, in a unit of your choice; `percent` is a fraction of the run, from 0 to "
      "1. Give one unit.",
      "1000"}});

class Rsqrt : public Decay {
 public:
  Rsqrt(const Config& config, const ScheduleEnv& env) : warmup_(env.warmup) {
    timescale_ = steps(config, "timescale", 10000, env);
    shift_ = steps(config, "shift", 0, env);
    // A fraction of no steps is 0. Such a run needs no value, so any time scale will do.
    if (env.length.no_training) timescale_ = std::max(timescale_, 1.0);
    if (!(timescale_ > 0)) config.problem(key_of_timescale(config), "must be positive");
    check_not_negative(config, "shift", shift_);
  }
  double value(double base, double step, double) const override {
    return base / std::sqrt(1.0 + (std::max(step - warmup_, 0.0) + shift_) / timescale_);
  }

 private:
  static std::string key_of_timescale(const Config& config) {
    for (const char* key : {"timescale_steps", "timescale_examples", "timescale_epochs"}) {
      if (config.has(key)) return key;
    }
    return config.has("timescale_percent") ? "timescale_percent" : "timescale";
  }
  static double steps(const Config& config, const std::string& name, double fallback,
                      const ScheduleEnv& env) {
    const double plain = config.get<double>(name, fallback);
    const auto in_unit = schedule_duration(config, name, env.length);
    if (in_unit && plain != fallback)  // the config of a run states the default
      config.warn(name, fmt::format("has no effect, because {} is also given in a unit", name));
    return in_unit.value_or(plain);
  }
  double warmup_, timescale_, shift_;
};
const Register<Decay, Rsqrt> registered_rsqrt("rsqrt");

}  // namespace
}  // namespace bv
