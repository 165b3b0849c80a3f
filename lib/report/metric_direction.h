// What the name of a metric implies about its values.
#pragma once

#include <string_view>

namespace bv {

enum class Direction { up, down, none };

// Returns which values of a metric are better: `up` for "test/prec@1" or "a/cars_10shot-seed-1",
// `down` for "training_loss" or "val/ece", `none` for a metric without a better direction, such as
// "epoch", "img/sec/core" or a name that this function does not know. Only the part after the last
// '/' counts, because the part before it is a user's name of an evaluator. If several words imply a
// direction, the last one counts, because a user's prefix may end without a '/': "mae_prec@1". The
// evaluator `distance` names its metrics otherwise: "val/kind=kl_t=2/avg" is `down`,
// "val/kind=agree/avg" is `up`.
Direction metric_direction(std::string_view name);

// Whether the metric is a fraction of correct answers, so that 1 is perfect and 1 - value is an
// error.
bool is_accuracy(std::string_view name);

// Whether the metric is about a single class, as "val/recall@cat" is. "prec@1" is not.
bool is_of_class(std::string_view name);

// Whether a word of `text` begins with 'train' or 'minitrain': by this name or prefix a user says
// that an evaluator measures training data.
bool names_training(std::string_view text);

// Returns whether the value `a` is better than `b`. If one of them is NaN, returns false.
bool is_better(double a, double b, bool higher_is_better);

}  // namespace bv
