// cosine: base * (1 + cos(pi x)) / 2, where x goes from 0 to 1 after the warm-up. Follows
// "cosine" of utils.py `create_learning_rate_schedule` of big_vision.
#include <cmath>
#include <numbers>

#include "lib/optim/schedule.h"

namespace bv {
namespace {

const KeyTable cosine_keys(
    "schedule: cosine",
    {"Falls from `mult` to 0 along half a cosine: slowly at first, fastest in the "
     "middle, slowly at the end. It is a good first choice with nothing to tune.",
     "warmup_percent: 0.05", "utils.py create_learning_rate_schedule"},
    {});

class Cosine : public Decay {
 public:
  Cosine(const Config&, const ScheduleEnv&) {}
  double value(double base, double, double progress) const override {
    return base * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  }
};
const Register<Decay, Cosine> registered_cosine("cosine");

}  // namespace
}  // namespace bv
