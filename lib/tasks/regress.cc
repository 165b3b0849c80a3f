// regress: the task of predicting numbers.
//
// A batch has "image" (n, h, w, c) float32 and, for the loss, the targets "labels" (n, targets) or
// (n) float32, or "label" (n) float32. The model learns (target - mean) / std with the mean and
// standard deviation of the training data, which are buffers of the model
// (lib/model/target_scale.h); "logits" of the predictions are in the units of the targets.
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/ordered_work.h"
#include "lib/model/target_scale.h"
#include "lib/report/log.h"
#include "lib/tasks/sliced_labels.h"
#include "lib/tasks/target_spread.h"
#include "lib/tasks/task.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable regress_keys(
    "task_kw: regress",
    {"Trains the model to predict numbers, such as an age, a dose or coordinates. `num_classes` is "
     "their number. Each example must have a float `image` and `labels`, one number per target, or "
     "`label`, a single one. The key `loss` is `mse` (the default), `l1` or `huber`, averaged over "
     "the targets and examples. Metrics and predictions are in the units of the labels.",
     "normalize_targets: true"},
    {{"normalize_targets", "bool", "true",
      "Whether to train on (target - mean) / standard deviation, computed from the training data, "
      "so that targets of any scale train alike. The loss is then in units of the standard "
      "deviation. At each start the labels of all training examples are read, and if `input.pp` "
      "makes the labels from the image, all images are preprocessed. Checkpoints store both "
      "statistics of each target; `predict`, evaluators and `export` give values in the units of "
      "the labels."},
     {"delta", "float > 0", "1",
      "With `loss: huber`, the error above which the loss is linear instead of quadratic. With "
      "`normalize_targets` it is in standard deviations."}});

[[noreturn]] void refuse_regress(const std::string& why) {
  throw Error::in("regress", Exit::usage, why);
}

// Returns the name of the targets in a batch or an example: "labels" or "label".
const char* target_key(const Example& features) {
  for (const char* key : {"labels", "label"})
    if (features.contains(key)) return key;
  refuse_regress(fmt::format(
      "a batch has no 'labels' and no 'label', only {}; list one in keep(\"image\", ...)",
      names_of(features)));
}

// Returns the targets of a batch, (n, targets) float32, where `outputs` are the model's. Throws if
// they are class numbers; with `named`, integers are.
at::Tensor need_targets(const Batch& batch, const at::Tensor& outputs, bool named) {
  const char* key = target_key(batch);
  const at::Tensor& labels = batch.at(key);
  if (labels.scalar_type() != at::kFloat && named) {
    refuse_regress(fmt::format(
        "'{}' is {}: these are class numbers, because the training data has class names; use task: "
        "classify, or give regression targets (csv: label: [COLUMN], image_folder: label: number)",
        key, dtype_name(labels.scalar_type())));
  }
  const at::Tensor numbers = labels.to(at::kFloat);
  const at::Tensor targets = numbers.dim() == 1 ? numbers.unsqueeze(1) : numbers;
  if (targets.sizes() != outputs.sizes()) {
    refuse_regress(
        fmt::format("'{}' are {} but the model's outputs are {}; num_classes is the number of "
                    "targets",
                    key, shape_text(labels.sizes()), shape_text(outputs.sizes())));
  }
  return targets;
}

// Adds the labels of an example. Throws if one is NaN or infinite, or if their number differs from
// that of `spreads`.
void add_labels(const Example& example, const char* key, const std::string& name,
                std::vector<RunningSpread>& spreads, std::vector<TargetOrder>& orders) {
  const auto found = example.find(key);
  if (found == example.end())
    throw Error(Exit::usage, name, fmt::format("has no '{}', unlike other examples", key));
  const at::Tensor values = found->second.to(at::kDouble).contiguous();
  if (values.numel() != std::ssize(spreads)) {
    throw Error(Exit::usage, name,
                fmt::format("'{}' has {} numbers, but num_classes is {}", key, values.numel(),
                            spreads.size()));
  }
  for (size_t t = 0; t < spreads.size(); ++t) {
    const double value = values.const_data_ptr<double>()[t];
    if (!std::isfinite(value))
      throw Error(Exit::usage, name, fmt::format("target {} of '{}' is {}", t, key, value));
    spreads[t].add(value);
    orders[t].add(value);
  }
}

// The labels of one example, or why they cannot be read.
struct ReadLabels {
  Example example;
  std::exception_ptr failure;  // an Error(Exit::data)
};

// Returns the spread of each target. Warns of slices of sorted rows.
std::vector<RunningSpread> spreads_of(const LabelledExamples& examples, const char* key,
                                      int64_t targets) {
  std::vector<RunningSpread> spreads(static_cast<size_t>(targets));
  std::vector<std::vector<TargetOrder>> orders(examples.parts.size(),
                                               std::vector<TargetOrder>(spreads.size()));
  const bool quick = labels_are_quick(examples, key);
  if (!quick) {
    log::info("Preprocessing {} examples for the mean and standard deviation of their targets",
              human_count(examples.size));
  }
  int64_t failed = 0;
  const auto read = [&](int64_t i) {
    ReadLabels one;
    try {
      one.example = quick ? examples.quick(i) : examples.computed(i);
      std::erase_if(one.example, [&](const auto& feature) { return feature.first != key; });
    } catch (const Error& error) {
      if (error.code() != Exit::data) throw;
      one.failure = std::current_exception();
    }
    return one;
  };
  results_in_order(examples.size, examples.threads, read, [&](int64_t i, const ReadLabels& one) {
    if (one.failure) {
      if (++failed > examples.error_budget) std::rethrow_exception(one.failure);
      return;
    }
    const auto part = std::upper_bound(examples.parts.begin(), examples.parts.end(), i) - 1;
    add_labels(one.example, key, examples.describe(i), spreads,
               orders[part - examples.parts.begin()]);
    log::progress(
        fmt::format("targets: {} of {} examples", human_count(i + 1), human_count(examples.size)));
  });
  log::clear_progress();
  warn_of_sorted_targets(examples, orders);
  return spreads;
}

class Regress : public Task {
 public:
  Regress(const Config& config, const TaskEnv& env)
      : loss_(env.loss_name),
        normalizes_(config.get<bool>("normalize_targets", true)),
        delta_(config.get<double>("delta", 1.0)),
        named_(!env.class_names.empty() && env.label_feature == "label") {
    if (!(delta_ > 0))
      config.problem("delta", fmt::format("must be positive, got {}", delta_));
    else if (delta_ != 1 && loss_ != "huber")
      config.problem("delta", fmt::format("has no effect with loss: {}", loss_));
    if (!compares_numbers(loss_)) {
      throw Error(Exit::usage, env.loss_place,
                  fmt::format("loss '{}' does not compare numbers; task: regress has mse, l1 and "
                              "huber",
                              loss_));
    }
    if (env.label_smoothing > 0)
      throw Error(Exit::usage, env.smoothing_place,
                  "label_smoothing is for classes; task: regress has none: remove it");
  }

  void add_buffers(Model& model, int64_t outputs) const override {
    if (normalizes_) add_target_scale(model, outputs);
  }

  void fit(Model& model, const LabelledExamples& examples, const Example& first) const override {
    if (!normalizes_) return;
    const int64_t targets = target_scale(model)->mean.size(0);
    const std::vector<RunningSpread> spreads = spreads_of(examples, target_key(first), targets);
    std::vector<double> means, stds;
    for (size_t t = 0; t < spreads.size(); ++t) {
      if (spreads[t].count() == 0)
        throw Error(Exit::usage, "", "no training example could be read for its targets");
      const std::string why = unlearnable(spreads[t], fmt::format("target {}", t));
      if (!why.empty()) throw Error(Exit::usage, "", why);
      means.push_back(spreads[t].mean());
      stds.push_back(spreads[t].std());
    }
    set_target_scale(model, means, stds);
  }

  at::Tensor loss(Model& model, const Batch& batch, Pass& pass) const override {
    return losses(model, batch, forward(model, batch, pass)).mean();
  }

  Outputs predict(const std::string& pred, Model& model, const Batch& batch,
                  Pass& pass) const override {
    const at::Tensor outputs = forward(model, batch, pass);
    if (pred == "predict") return {{kLogitsOutput, in_target_units(model, outputs)}};
    check(pred == "loss", "no prediction function '{}'", pred);
    return {{kLossOutput, losses(model, batch, outputs).mean(1)}};
  }

 private:
  static at::Tensor forward(Model& model, const Batch& batch, Pass& pass) {
    if (!batch.contains("image"))
      refuse_regress("a batch has no 'image'; list it in keep(\"image\", ...)");
    return model.forward(batch.at("image"), pass);
  }

  // Returns the loss of each target, (n, targets) float32.
  at::Tensor losses(const Model& model, const Batch& batch, const at::Tensor& outputs) const {
    at::Tensor targets = need_targets(batch, outputs, named_);
    if (const auto scale = target_scale(model)) targets = (targets - scale->mean) / scale->std;
    if (loss_ == "mse") return at::mse_loss(outputs, targets, at::Reduction::None);
    if (loss_ == "l1") return at::l1_loss(outputs, targets, at::Reduction::None);
    return at::huber_loss(outputs, targets, at::Reduction::None, delta_);
  }

  const std::string loss_;
  const bool normalizes_;
  const double delta_;
  const bool named_;  // the training data has class names for integers
};
const Register<Task, Regress> registered_regress("regress");

}  // namespace
}  // namespace bv
