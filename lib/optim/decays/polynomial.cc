// polynomial, linear: end + (base - end) * (1 - x)^power. Keys: power (1), end, or linear_end (0),
// both on the scale of `mult`; `end` wins.
#include <cmath>

#include "lib/optim/schedule.h"

namespace bv {
namespace {

class Polynomial : public Decay {
 public:
  Polynomial(const Config& config, const ScheduleEnv&) : power_(config.get<double>("power", 1.0)) {
    const double linear_end = config.get<double>("linear_end", 0.0);
    end_ = config.get<double>("end", linear_end);
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
