// regression: errors of predicted numbers. The values equal scikit-learn's
// (scripts/golden/scikit_learn.py). big_vision has no such evaluator.
//
// The predictions of all examples are gathered in data order, and rank 0 computes in float64, so
// the results do not depend on the number of ranks.
#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/evals/common/class_details.h"
#include "lib/evals/common/collected.h"
#include "lib/evals/common/labels.h"
#include "lib/evals/common/target_scores.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable regression_keys(
    "evals.*: regression",
    {"Measures the errors of models of the task `regress`: `mae` is the mean absolute error, `mse` "
     "the mean squared error, `rmse` its root, and `r2` the fraction of the variance that is "
     "explained: 1 is perfect, and 0 is no better than the mean. `mae` and `rmse` are in the units "
     "of the labels, `mse` in the square of these units. With several targets, all four are means "
     "over the "
     "targets, and each target also has its own, such as `mae@0`, or `mae@age` if the data names "
     "its targets (`mae@body_height` for a target `body height`). If all labels of a target are "
     "equal, r2 is 1 if every prediction is exact, and "
     "0 otherwise. The report plots the errors over the targets.",
     "type: regression\n"
     "data: {name: npz, fname: data/test.npz}\n"
     "pp_fn: value_range(-1, 1)|keep(\"image\", \"labels\")\n"
     "log_epochs: 1"},
    {{"label_key", "string", "labels",
      "Name of the feature with the regression targets: one or several numbers per example."}},
    kEvalDataKeys, kEvalLoaderKeys);

constexpr size_t kResiduals = 1000;     // points of a plot
constexpr int64_t kResidualPlots = 12;  // targets

class Regression : public Evaluator {
 public:
  Regression(const Config& config, const EvalEnv& env)
      : name_(env.name),
        label_key_(config.get("label_key", "labels")),
        num_targets_(env.data.source.num_classes),
        input_(config, env, label_key_) {}

  Batch probe(int64_t n) override {
    Batch batch = input_.probe(n);
    const int64_t targets = labels_in(batch).size(1);
    if (num_targets_ > 0 && targets != num_targets_) {
      refuse(fmt::format("'{}' are {} numbers but num_classes is {}", label_key_, targets,
                         num_targets_));
    }
    return batch;
  }
  int64_t examples() const override { return input_.examples(); }
  uint64_t fingerprint() const override { return input_.fingerprint(); }
  uint64_t content() const override { return input_.content(); }

  std::optional<std::vector<std::string>> metrics() const override {
    if (num_targets_ != 1) return std::nullopt;  // the names of the targets are in the data
    return metric_names(1);
  }

  void run(const EvalContext& context, const Measure& emit) override {
    int64_t targets = 0;
    const Collected all =
        collect_outputs(input_, context, name_, [&](const Batch& batch, const at::Tensor& outputs) {
          targets = outputs.size(1);
          return rows_of(batch, targets);
        });
    const std::vector<std::string> names = metric_names(targets);
    std::vector<double> values(names.size());
    if (context.group->rank() == 0) values = values_of(all, targets);
    share_values(*context.group, values);
    for (size_t i = 0; i < names.size(); ++i) emit(names[i], values[i]);
    if (context.details) context.details(details(context.step, all, targets));
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Exit::usage, "", fmt::format("evaluator '{}': {}", name_, why));
  }

  std::vector<std::string> metric_names(int64_t targets) const {
    std::vector<std::string> names = {"mae", "mse", "rmse", "r2"};
    if (targets == 1) return names;
    for (const std::string& end : class_name_ends(target_names(targets))) {
      for (const char* name : {"mae", "mse", "rmse", "r2"}) names.push_back(name + ("@" + end));
    }
    return names;
  }

  // Returns the target names from the data, or else their numbers.
  std::vector<std::string> target_names(int64_t targets) const {
    std::vector<std::string> names = input_.class_names(label_key_);
    if (std::ssize(names) != targets) names.clear();
    for (int64_t t = std::ssize(names); t < targets; ++t) names.push_back(std::to_string(t));
    return names;
  }

  // Returns the labels of a batch, (n, targets) float32.
  at::Tensor labels_in(const Batch& batch) const {
    const auto found = batch.find(label_key_);
    if (found == batch.end()) {
      const auto label = batch.find("label");
      const bool single = label_key_ == "labels" && label != batch.end();
      refuse(fmt::format(
          "pp gives no '{}' (it gives {}); see {}", label_key_, names_of(batch),
          single ? "label_key: label" : fmt::format("keep(\"image\", \"{}\")", label_key_)));
    }
    const at::Tensor& labels = found->second;
    if (labels.dim() < 1 || labels.dim() > 2) {
      refuse(fmt::format("'{}' must be numbers, (n) or (n, targets), not {} {}", label_key_,
                         dtype_name(labels.scalar_type()), shape_text(labels.sizes())));
    }
    const at::Tensor values = labels.to(at::kFloat);
    return values.dim() == 1 ? values.unsqueeze(1) : values;
  }

  CollectedRows rows_of(const Batch& batch, int64_t targets) const {
    const at::Tensor labels = labels_in(batch);
    if (labels.size(1) != targets) {
      refuse(fmt::format("the model has {} outputs but '{}' {} numbers", targets, label_key_,
                         labels.size(1)));
    }
    const at::Tensor keep = batch.at("_mask");
    const at::Tensor bad = at::isfinite(labels).all(1).logical_not().logical_and(keep);
    if (bad.any().item<bool>()) {
      const int64_t row = bad.nonzero()[0].item<int64_t>();
      throw Error(Exit::data, "",
                  fmt::format("evaluator '{}': '{}' of {} is NaN or infinite", name_, label_key_,
                              input_.data().describe(batch.at("_id")[row].item<int64_t>())));
    }
    const at::Tensor rows = keep.nonzero().squeeze(1);
    return {rows, labels.index_select(0, rows)};
  }

  // Returns the values in the order of metric_names().
  static std::vector<double> values_of(const Collected& all, int64_t targets) {
    const auto count = static_cast<size_t>(all.size * targets);
    const std::vector<TargetScores> scores =
        score_targets({all.labels.const_data_ptr<float>(), count},
                      {all.outputs.const_data_ptr<float>(), count}, targets);
    std::vector<double> values;
    const auto add = [&](const TargetScores& one) {
      values.insert(values.end(), {one.mae, one.mse, one.rmse, one.r2});
    };
    add(mean_over_targets(scores));
    for (size_t t = 0; scores.size() > 1 && t < scores.size(); ++t) add(scores[t]);
    return values;
  }

  // Returns the residuals of at most kResiduals examples, evenly spaced in the data.
  EvalDetails details(int64_t step, const Collected& all, int64_t targets) const {
    EvalDetails result;
    result.evaluator = name_;
    result.step = step;
    const auto* truth = all.labels.const_data_ptr<float>();
    const auto* predicted = all.outputs.const_data_ptr<float>();
    const int64_t stride = (all.size + kResiduals - 1) / kResiduals;
    const std::vector<std::string> names = target_names(targets);
    for (int64_t t = 0; t < std::min(targets, kResidualPlots); ++t) {
      EvalDetails::Residuals& residuals = result.residuals.emplace_back();
      residuals.target = targets == 1 ? "" : "target " + names[static_cast<size_t>(t)];
      for (int64_t i = 0; i < all.size; i += stride) {
        const double value = truth[i * targets + t];
        residuals.points.emplace_back(value, predicted[i * targets + t] - value);
      }
    }
    return result;
  }

  const std::string name_, label_key_;
  const int64_t num_targets_;  // of the model; 0 if unknown
  mutable EvalInput input_;    // opens its data on first use
};

const Register<Evaluator, Regression> registered_regression("regression");

}  // namespace
}  // namespace bv
