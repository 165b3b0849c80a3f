// Weights of positive labels, for classes that few images have: the argument `pos_weight` of the
// task classify.
#pragma once

#include <vector>

#include "lib/config/config.h"
#include "lib/config/key_table.h"
#include "lib/tasks/task.h"

namespace bv {

inline constexpr KeyText kPosWeightKeys[] = {
    {"pos_weight", "float > 0 | list of float > 0", "none",
     "Weight, in the loss of a class, of the images that have the class: one number for all "
     "classes, or a list with one per class. Images without the class have weight 1. The value "
     "(images without the class) / (images with it) gives both the same total weight. The `loss` "
     "must be `sigmoid_xent`. Evaluators, even with `pred: loss`, do not use it. It is PyTorch's "
     "`BCEWithLogitsLoss(pos_weight=...)`.",
     "[9, 1, 2]"},
};

// Reads `pos_weight`. Returns a weight for each class, one for all classes, or an empty list if
// the key is absent. Records problems with the config.
std::vector<double> read_pos_weight(const Config& config, const TaskEnv& env);

}  // namespace bv
