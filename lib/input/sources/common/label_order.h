#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns whether `labels`, (size,) int64, are numbers of classes that come one class after the
// other: no class comes again after another one, there are several classes, and a class has several
// examples. Which number a class has does not matter. Numbers that differ in every example are not
// classes. Source::kNoLabel may occur anywhere. False if `labels` is undefined.
bool in_order_of_classes(const at::Tensor& labels);

}  // namespace bv
