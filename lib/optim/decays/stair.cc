// stair: base until the first of `steps`; from step floor(steps[i]) on, base * mults[i].
// Without steps the schedule is constant. Follows "stair" of utils.py
// `create_learning_rate_schedule` of big_vision.
#include <fmt/format.h>

#include <algorithm>

#include "lib/optim/not_negative.h"
#include "lib/optim/schedule.h"

namespace bv {
namespace {

const KeyTable stair_keys(
    "schedule: stair",
    {"Piecewise constant: it changes to a new value at each given step. Without "
     "`steps` the value stays at `mult` for the whole run.",
     "steps: [30000, 60000]\nmults: [0.1, 0.01]", "utils.py create_learning_rate_schedule"},
    {{"steps", "list of float", "[]",
      "Steps at which the value changes, in ascending order. They are in steps, "
      "whatever the unit of the run's length.",
      "[30000, 60000, 80000]"},
     {"mults", "list of float >= 0", "[]",
      "Factor of `mult` from each of the `steps` on, one per step. The factors do "
      "not accumulate: each applies to `mult` itself.",
      "[0.1, 0.01, 0.001]"}});

class Stair : public Decay {
 public:
  Stair(const Config& config, const ScheduleEnv& env)
      : steps_(config.get("steps", std::vector<double>{})),
        mults_(config.get("mults", std::vector<double>{})) {
    if (steps_.size() != mults_.size()) {
      config.fail("mults", fmt::format("needs one number for each of the {} steps, got {}",
                                       steps_.size(), mults_.size()));
    }
    if (!std::is_sorted(steps_.begin(), steps_.end()))
      config.problem("steps", "must be in ascending order");
    for (const double mult : mults_) check_not_negative(config, "mults", mult, "each of them");
    const int64_t total = env.length.total_steps;
    const auto late = std::find_if(steps_.begin(), steps_.end(),
                                   [&](double at) { return at >= static_cast<double>(total); });
    if (!env.length.made_up && total > 0 && late != steps_.end())
      config.warn("steps", fmt::format("those not before the end, step {}, have no effect: {}",
                                       total, fmt::join(late, steps_.end(), ", ")));
  }
  double value(double base, double step, double) const override {
    const auto passed =
        std::count_if(steps_.begin(), steps_.end(), [&](double at) { return at < step + 1; });
    return passed == 0 ? base : base * mults_[static_cast<size_t>(passed) - 1];
  }

 private:
  std::vector<double> steps_, mults_;
};
const Register<Decay, Stair> registered_stair("stair");

}  // namespace
}  // namespace bv
