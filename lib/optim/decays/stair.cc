// stair: base until the first of `steps`; from step steps[i] on, base * mults[i]. Without steps the
// schedule is constant. Follows "stair" of utils.py `create_learning_rate_schedule` of big_vision.
//   schedule: {steps: [], mults: []}   lists of the same length; steps in ascending order
#include <algorithm>

#include "lib/optim/not_negative.h"
#include "lib/optim/schedule.h"

namespace bv {
namespace {

class Stair : public Decay {
 public:
  Stair(const Config& config, const ScheduleEnv&)
      : steps_(config.get("steps", std::vector<double>{})),
        mults_(config.get("mults", std::vector<double>{})) {
    if (steps_.size() != mults_.size()) {
      config.fail("mults", fmt::format("needs one number for each of the {} steps, got {}",
                                       steps_.size(), mults_.size()));
    }
    if (!std::is_sorted(steps_.begin(), steps_.end()))
      config.problem("steps", "must be in ascending order");
    for (const double mult : mults_) check_not_negative(config, "mults", mult, "each of them");
  }
  double value(double base, double step, double) const override {
    const auto passed =
        std::count_if(steps_.begin(), steps_.end(), [&](double at) { return at <= step; });
    return passed == 0 ? base : base * mults_[static_cast<size_t>(passed) - 1];
  }

 private:
  std::vector<double> steps_, mults_;
};
const Register<Decay, Stair> registered("stair");

}  // namespace
}  // namespace bv
