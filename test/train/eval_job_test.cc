// The keys that all evaluators have.
#include "lib/train/eval_job.h"

#include <catch2/catch.hpp>

#include "test/support/config.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

// Returns the problems of evaluators of a task that has one more prediction function than others.
std::string evaluator_problems(const std::string& evals) {
  EvalDefaults defaults;
  defaults.batch_size = 8;
  defaults.predictions = {{"predict", kLogitsOutput}, {"loss", kLossOutput}, {"embed", "vectors"}};
  const auto read = [&](const Config& config) {
    return read_evals(config, defaults, {.batch_size = 8, .data_size = 80, .total_steps = 10});
  };
  return error_of([&] { from_yaml(evals, read); });
}

}  // namespace

TEST_CASE("an evaluator's prediction function gives the output that the evaluator reads") {
  const std::string knn =
      "knn:\n  train: {name: digits, split: train}\n  data: {name: digits, split: test}\n"
      "  pp_fn: value_range(-1, 1)|keep(\"image\", \"label\")\n  pred: ";
  CHECK(evaluator_problems(knn + "predict\n").empty());
  CHECK(evaluator_problems(knn + "embed\n") ==
        "t.yaml:5:9: error: knn.pred: the evaluator 'knn' reads 'logits', which 'embed' does not "
        "give; write pred: predict");
}

}  // namespace bv::test
