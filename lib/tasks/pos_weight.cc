#include "lib/tasks/pos_weight.h"

#include <algorithm>
#include <cmath>

namespace bv {

std::vector<double> read_pos_weight(const Config& config, const TaskEnv& env) {
  std::vector<double> weights;
  if (config.is_list("pos_weight")) {
    weights = config.get<std::vector<double>>("pos_weight");
    if (env.num_classes > 0 && std::ssize(weights) != env.num_classes) {
      config.fail("pos_weight", fmt::format("has {} weights, but num_classes is {}", weights.size(),
                                            env.num_classes));
    }
  } else if (const auto weight = config.maybe<double>("pos_weight")) {
    weights = {*weight};
  }
  if (!weights.empty() && env.loss_name != "sigmoid_xent") {
    config.problem("pos_weight",
                   fmt::format("needs loss: sigmoid_xent, not {}; class_weights weights the "
                               "classes of softmax_xent",
                               env.loss_name));
  }
  const auto fits = [](double weight) { return weight > 0 && std::isfinite(weight); };
  if (!std::all_of(weights.begin(), weights.end(), fits))
    config.fail("pos_weight", "must be positive");
  return weights;
}

}  // namespace bv
