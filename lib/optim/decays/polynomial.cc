// polynomial, linear: end + (base - end) * (1 - x)^power, where x goes from 0 to 1 after the
// warm-up. Follows "polynomial" and "linear" of utils.py `create_learning_rate_schedule` of
// big_vision.
//   schedule: {power: 1,   1 is linear
//              end: 0}     the final value, on the scale of `mult`; default: `linear_end`, or 0
#include <cmath>

#include "lib/optim/not_negative.h"
#include "lib/optim/schedule.h"

namespace bv {
namespace {

class Polynomial : public Decay {
 public:
  Polynomial(const Config& config, const ScheduleEnv&) : power_(config.get<double>("power", 1.0)) {
    const double linear_end = config.get<double>("linear_end", 0.0);
    end_ = config.get<double>("end", linear_end);
    check_not_negative(config, "power", power_);
    check_not_negative(config, config.has("end") ? "end" : "linear_end", end_);
  }
  double value(double base, double, double progress) const override {
    return end_ + (base - end_) * std::pow(1.0 - progress, power_);
  }

 private:
  double power_, end_;
};
const Register<Decay, Polynomial> registered("polynomial");
const Register<Decay, Polynomial> registered_linear("linear");

}  // namespace
}  // namespace bv
