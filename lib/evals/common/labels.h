// Reading labels from a batch. All errors are Error(Exit::usage); they name the evaluator and say
// what to add to its preprocessing.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "lib/input/loader/loader.h"

namespace bv {

// How much the sum of an example's class fractions may differ from 1: they may come from float16 or
// from text.
inline constexpr double kShareTolerance = 1e-3;

// Returns the dense labels under `key` as (n, classes) float32. Throws if there are none.
at::Tensor dense_labels(const Batch& batch, const std::string& key, const std::string& evaluator);
// Returns the class numbers under `key` as (n) int64. Throws if there is not one integer per
// example.
at::Tensor class_labels(const Batch& batch, const std::string& key, const std::string& evaluator);

}  // namespace bv
