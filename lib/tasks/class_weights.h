// Weights of classes, for training data in which some classes are rare: the argument
// `class_weights` of the task classify.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/config/config.h"
#include "lib/config/key_table.h"
#include "lib/tasks/task.h"

namespace bv {

inline constexpr KeyText kClassWeightKeys[] = {
    {"class_weights", "'balanced' | 'effective' | list of float > 0", "none",
     "Weight of each class in the loss, which must be `softmax_xent`: a list with one number per "
     "class, or computed from the number n of training examples of the class. `balanced` uses 1 / "
     "n, and `effective` (1 - b) / (1 - b^n) with b from `class_weights_beta`, which differs less "
     "for large classes. In a mixture, n is the mean number of examples of the class in an epoch, "
     "which follows from the shares of the data sets. The loss of a batch is the weighted mean "
     "over its examples, for any number of processes. Evaluators, even with `pred: loss`, do not "
     "use the weights.",
     "balanced"},
    {"class_weights_beta", "float 0..<1", "0.999",
     "With `class_weights: effective`, the number b of Cui et al. (2019): classes with more than "
     "about 1 / (1 - b) examples count alike."},
};

// Reads `class_weights` and `class_weights_beta`. Returns a weight for each class, as float32
// values, or an empty list if there are none, or if they follow from labels that `env` does not
// have. Records problems with the config.
std::vector<double> read_class_weights(const Config& config, const TaskEnv& env);

// Returns examples / (classes * count) for each class, as scikit-learn does.
std::vector<double> balanced_weights(const std::vector<double>& counts);
// Returns (1 - beta) / (1 - beta^count) for each class, scaled such that their sum is the number of
// classes (Cui et al., "Class-balanced loss based on effective number of samples", CVPR 2019).
std::vector<double> effective_weights(const std::vector<double>& counts, double beta);

}  // namespace bv
