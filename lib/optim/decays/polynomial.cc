// polynomial, linear: end + (base - end) * (1 - x)^power, where x goes from 0 to 1 after the
// warm-up. Follows "polynomial" and "linear" of utils.py `create_learning_rate_schedule` of
// big_vision.
#include <cmath>

#include "lib/optim/not_negative.h"
#include "lib/optim/schedule.h"

namespace bv {
namespace {

constexpr KeyText kPolynomialKeys[] = {
    {"power", "float >= 0", "1",
     "Exponent: 1 is linear, 2 falls faster at first and flattens out towards the end, and values "
     "below 1 fall mostly at the end."},
    {"linear_end", "float >= 0", "0", "The same as `end`. It has no effect if `end` is given."},
    {"end", "float >= 0", "= linear_end",
     "Value at the end of the run. It is not relative to `mult`: with `mult: 0.5` and `end: 0.01` "
     "the value falls from 0.5 to 0.01, and the last learning rate is `lr` times 0.01.",
     "0.01"}};
const KeyTable polynomial_keys(
    "schedule: polynomial",
    {"Falls from `mult` to `end` as a power of the remaining part of the run.",
     "power: 2\nwarmup_steps: 1000", "utils.py create_learning_rate_schedule"},
    {}, kPolynomialKeys);
const KeyTable linear_keys("schedule: linear",
                           {"Falls from `mult` to `end` linearly, or along a curve if `power` is "
                            "not 1. It is the same as `polynomial`.",
                            "end: 0.01\nwarmup_steps: 1000",
                            "utils.py create_learning_rate_schedule"},
                           {}, kPolynomialKeys);

class Polynomial : public Decay {
 public:
  Polynomial(const Config& config, const ScheduleEnv&) : power_(config.get<double>("power", 1.0)) {
    const double linear_end = config.get<double>("linear_end", 0.0);
    end_ = config.get<double>("end", linear_end);
    check_not_negative(config, "power", power_);
    check_not_negative(config, "linear_end", linear_end);
    if (config.has("end")) check_not_negative(config, "end", end_);
    if (linear_end != 0 && linear_end != end_)
      config.warn("linear_end", "has no effect, because `end` is given");
  }
  double value(double base, double, double progress) const override {
    return end_ + (base - end_) * std::pow(1.0 - progress, power_);
  }

 private:
  double power_, end_;
};
const Register<Decay, Polynomial> registered_polynomial("polynomial");
const Register<Decay, Polynomial> registered_linear("linear");

}  // namespace
}  // namespace bv
