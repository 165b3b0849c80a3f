// mean: averages the per-example values that the prediction function returns. Follows big_vision's
// evaluators/mean.py, class Evaluator.
#include <ATen/ops/zeros.h>

#include "lib/config/key_table.h"
#include "lib/evals/common/eval_input.h"
#include "lib/evals/common/ranks.h"
#include "lib/evals/evaluator.h"

namespace bv {
namespace {

const KeyTable mean_keys(
    "evals.*: mean",
    {"Averages the training loss, without label smoothing, over the examples of a "
     "data set. Requires `pred: loss`. The metric is called `loss`.",
     "type: mean\n"
     "pred: loss\n"
     "data: {name: digits, split: test}\n"
     "pp_fn: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|"
     "keep(\"image\", \"labels\")",
     "evaluators/mean.py Evaluator"},
    {}, kEvalDataKeys, kEvalLoaderKeys);

class Mean : public Evaluator {
 public:
  Mean(const Config& config, const EvalEnv& env) : input_(config, env) {}

  Batch probe(int64_t n) override { return input_.probe(n); }
  int64_t examples() const override { return input_.examples(); }
  uint64_t fingerprint() const override { return input_.fingerprint(); }
  uint64_t content() const override { return input_.content(); }
  std::string output() const override { return kLossOutput; }
  std::optional<std::vector<std::string>> metrics() const override {
    return std::vector<std::string>{kLossOutput};
  }

  void run(const EvalContext& context, const Measure& emit) override {
    std::map<std::string, at::Tensor> sums;  // scalars, float64
    at::Tensor count = at::zeros({}, at::kDouble);
    input_.for_each(context, [&](const Batch& batch) {
      const at::Tensor mask = batch.at("_mask").to(at::kDouble);  // (n)
      count += mask.sum();
      for (const auto& [name, values] : context.predict(batch, {})) {
        const at::Tensor masked = values.to(at::kDouble).where(batch.at("_mask"), 0.0);
        auto [sum, fresh] = sums.try_emplace(name, masked.sum());
        if (!fresh) sum->second += masked.sum();
      }
    });
    sum_over_ranks(*context.group, count);
    for (const auto& [name, sum] : sums) sum_over_ranks(*context.group, sum);
    for (const auto& [name, sum] : sums) emit(name, sum.item<double>() / count.item<double>());
  }

 private:
  EvalInput input_;
};

const Register<Evaluator, Mean> registered_mean("mean");

}  // namespace
}  // namespace bv
