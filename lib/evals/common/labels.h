// Labels of evaluators: reading them from a batch, and examples without any class. All errors are
// Error(Exit::usage); they name the evaluator and say what to add to its preprocessing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/distributed/group.h"
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
// Throws if there is only one class. If each example has one class, every prediction is then right.
void refuse_one_class(int64_t classes, const std::string& key, const std::string& evaluator);

// Logs how many examples an evaluator leaves out because they have no class.
class WithoutClassNote {
 public:
  // All ranks call this after each pass. Only the first call logs. `count`: the left-out examples
  // of this rank; `examples`: those of the whole pass.
  void after_pass(Group& group, int64_t count, int64_t examples, const std::string& evaluator);

 private:
  bool counted_ = false;
};

}  // namespace bv
