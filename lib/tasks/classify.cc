// classify: the task of assigning images to classes.
//
// A batch has "image" (n, h, w, c) float32 and, for the loss, dense labels "labels" (n, classes)
// float32. The loss is the config's `loss` (lib/model/loss.h). Training smooths the labels y to
// y (1 - ls) + ls / classes with `label_smoothing: ls`. With `class_weights` the loss is
//   sum(w[c] * y[i, c] * -log p[i, c]) / sum(w[c] * y[i, c])
// over all examples i of the batch and all classes c, with smoothed labels in the numerator only.
// For one-hot labels this is torch's cross_entropy(weight=w, reduction="mean"). With `pos_weight`
// the loss of an example is the sum over the classes of
//   w[c] * y[i, c] * -log p[i, c] + (1 - y[i, c]) * -log(1 - p[i, c])
#include <ATen/TensorOperators.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tensor.h>

#include <atomic>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/model/constant.h"
#include "lib/model/loss.h"
#include "lib/report/log.h"
#include "lib/tasks/class_weights.h"
#include "lib/tasks/pos_weight.h"
#include "lib/tasks/sliced_labels.h"
#include "lib/tasks/task.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable classify_keys(
    "task_kw: classify",
    {"Trains the model to assign images to classes. Each example must have a float `image` and "
     "`labels`, one number per class, as made by the op `onehot`. With `loss: sigmoid_xent` an "
     "image may have several classes or none. It minimizes the `loss`, with `label_smoothing` in "
     "training only.",
     "class_weights: balanced"},
    {{"multilabel", "bool", "false",
      "Whether an image may have several classes or none. The `loss` must then be `sigmoid_xent`, "
      "and labels must be within 0 and 1. Predictions are then independent probabilities of each "
      "class, and the evaluator `class_metrics` has `multilabel: true` by default."}},
    kClassWeightKeys, kPosWeightKeys);

[[noreturn]] void refuse_classify(const std::string& why) {
  throw Error::in("classify", Exit::usage, why);
}

const at::Tensor& need_key(const Batch& batch, const char* key, const char* hint) {
  const auto found = batch.find(key);
  if (found != batch.end()) return found->second;
  refuse_classify(fmt::format("a batch has no '{}', only {}; {}", key, names_of(batch), hint));
}

const at::Tensor& need_labels(const Batch& batch, const at::Tensor& logits) {
  const at::Tensor& labels =
      need_key(batch, "labels",
               "make them with onehot(C, key=\"label\", key_result=\"labels\") and list them in "
               "keep(\"image\", \"labels\")");
  if (labels.scalar_type() != at::kFloat) {
    const std::string remedy =
        labels.sizes() == logits.sizes()
            ? "if they are 0 or 1 for each class, value_range(0, 1, 0, 1, key=\"labels\") does that"
            : fmt::format("make them with onehot({}, key=\"label\", key_result=\"labels\")",
                          logits.size(-1));
    refuse_classify(fmt::format("'labels' must be float32 (n, {}), got {} {}; {}", logits.size(-1),
                                dtype_name(labels.scalar_type()), shape_text(labels.sizes()),
                                remedy));
  }
  if (labels.dim() == 1 && logits.size(-1) == 1) {
    refuse_classify(fmt::format(
        "'labels' are one number per example, {}, but num_classes: 1 needs {}: add reshape([1], "
        "key=\"labels\") to pp; or use num_classes: 2 and make them with onehot(2)",
        shape_text(labels.sizes()), shape_text(logits.sizes())));
  }
  if (labels.sizes() != logits.sizes()) {
    refuse_classify(
        fmt::format("'labels' are {} but the model's logits are {}; does num_classes equal the "
                    "depth of onehot(...)?",
                    shape_text(labels.sizes()), shape_text(logits.sizes())));
  }
  return labels;
}

// Losses in big_vision's utils.py that need inputs which this task's batches do not have.
constexpr std::pair<const char*, const char*> kOthers[] = {
    {"weighted_softmax_xent",
     "it needs the class number and weight of every token of a sequence, which no task supplies; "
     "to classify images, use softmax_xent or sigmoid_xent"},
    {"bidirectional_contrastive_loss",
     "it needs embeddings of images and of texts, which no task supplies; to classify images, use "
     "softmax_xent or sigmoid_xent"},
    {"mse", "it compares numbers; add task: regress"},
    {"l1", "it compares numbers; add task: regress"},
    {"huber", "it compares numbers; add task: regress"}};

std::unique_ptr<Loss> make_loss(const TaskEnv& env) {
  for (const auto& [name, why] : kOthers) {
    if (env.loss_name == name)
      throw Error(Exit::usage, env.loss_place, fmt::format("loss '{}': {}", name, why));
  }
  return Loss::Registry::make(env.loss_name, Config(), env.loss_place);
}

// Throws if the loss cannot change with the model's outputs.
void check_one_output(const TaskEnv& env) {
  if (env.num_classes != 1 || env.loss_name != "softmax_xent") return;
  throw Error(
      Exit::usage, env.loss_place,
      "the softmax of one output is always 1, so loss: softmax_xent learns nothing with one "
      "class; for two classes use num_classes: 2 with onehot(2), or one output with loss: "
      "sigmoid_xent, task_kw: {multilabel: true} and labels (n, 1) of 0 and 1");
}

// How many images of a batch have no class, and how many have several.
struct ClassesPerImage {
  int64_t none = 0, several = 0;
};

// labels: (n, classes) float32.
ClassesPerImage count_classes_per_image(const at::Tensor& labels) {
  constexpr float kMostForOne = 1.01F;  // the sum of soft labels, with rounding errors
  const at::Tensor dense = labels.contiguous();
  const int64_t classes = dense.size(1);
  const float* label = dense.const_data_ptr<float>();
  ClassesPerImage found;
  for (int64_t i = 0; i < dense.size(0); ++i, label += classes) {
    float sums[4] = {};  // an addition need not wait for the one before
    int64_t c = 0;
    for (; c + 4 <= classes; c += 4) {
      for (int k = 0; k < 4; ++k) sums[k] += label[c + k];
    }
    for (; c < classes; ++c) sums[0] += label[c];
    const float sum = sums[0] + sums[1] + sums[2] + sums[3];
    found.none += sum == 0;
    found.several += sum > kMostForOne;
  }
  return found;
}

class Classify : public Task {
 public:
  Classify(const Config& config, const TaskEnv& env)
      : loss_(make_loss(env)),
        smoothing_(env.label_smoothing),
        class_names_(env.class_names),
        one_class_(env.loss_name == "softmax_xent"),
        multilabel_(config.get<bool>("multilabel", false)) {
    check_one_output(env);
    const std::vector<double> positive = read_pos_weight(config, env);
    if (!positive.empty()) pos_weight_ = Constant(at::tensor(positive, at::kFloat));
    const std::vector<double> weights = read_class_weights(config, env);
    if (!weights.empty()) weights_ = Constant(at::tensor(weights, at::kFloat));
    if (multilabel_ && env.loss_name != "sigmoid_xent") {
      config.problem("multilabel", fmt::format("needs loss: sigmoid_xent, which treats each class "
                                               "independently; {} chooses one class",
                                               env.loss_name));
    }
    if (config.has("class_weights") && env.loss_name != "softmax_xent")
      config.problem("class_weights",
                     fmt::format("needs loss: softmax_xent, not {}; pos_weight weights the "
                                 "classes of sigmoid_xent",
                                 env.loss_name));
  }

  void fit(Model&, const LabelledExamples& examples, const Example& first) const override {
    const auto labels = first.find("labels");
    if (multilabel_ && labels != first.end())
      warn_of_absent_classes(examples, labels->second.numel(), class_names_);
  }

  // With multilabel, throws if a label is outside [0, 1]: the loss would have no lower bound.
  void check_values(const Batch& batch) const override {
    const auto labels = batch.find("labels");
    if (!multilabel_ || labels == batch.end()) return;
    const at::Tensor& values = labels->second;
    // need_labels() refuses labels of other dtypes with a remedy.
    if (values.is_meta() || values.numel() == 0 || values.scalar_type() != at::kFloat) return;
    const auto least = values.min().item<float>(), most = values.max().item<float>();
    if (least >= 0 && most <= 1) return;
    refuse_classify(fmt::format("with multilabel 'labels' must be within 0 and 1, got {}",
                                least >= 0 ? most : least));
  }

  // Warns once of images without a class, and once of images with several classes, if the loss is
  // softmax_xent.
  void check_training_values(const Batch& batch) const override {
    check_values(batch);
    const auto labels = batch.find("labels");
    if (!one_class_ || labels == batch.end() || (warned_of_none_ && warned_of_several_)) return;
    const at::Tensor& values = labels->second;
    if (!values.is_cpu() || values.dim() != 2 || values.scalar_type() != at::kFloat) return;
    const auto [none, several] = count_classes_per_image(values);
    if (none > 0 && !warned_of_none_.exchange(true)) {
      log::warn(
          "classify: {} of the {} images of a batch have no class: all their `labels` are 0, so "
          "softmax_xent learns nothing from them (later batches are not checked for that)",
          none, values.size(0));
    }
    if (several > 0 && !warned_of_several_.exchange(true)) {
      log::warn(
          "classify: {} of the {} images of a batch have several classes: their `labels` add up to "
          "more than 1, but softmax_xent is for one class per image; for several, use loss: "
          "sigmoid_xent and task_kw: {{multilabel: true}} (later batches are not checked for that)",
          several, values.size(0));
    }
  }

  at::Tensor loss(Model& model, const Batch& batch, Pass& pass) const override {
    const at::Tensor logits = forward(model, batch, pass);
    at::Tensor labels = need_labels(batch, logits);
    if (smoothing_ != 0) {
      const double share = smoothing_ / static_cast<double>(logits.size(-1));
      labels = labels.mul(1 - smoothing_).add_(share);
    }
    if (weights_.defined()) labels = labels * weights_.on(labels.options());
    if (pos_weight_.defined()) return weighted_sigmoid_xent(logits, labels).mean();
    return (*loss_)(logits, labels).mean();
  }

  at::Tensor weight(const Batch& batch) const override {
    if (!weights_.defined()) return {};
    const at::Tensor& labels = batch.at("labels");
    return labels.mul(weights_.on(labels.options())).sum();
  }

  Outputs predict(const std::string& pred, Model& model, const Batch& batch,
                  Pass& pass) const override {
    const at::Tensor logits = forward(model, batch, pass);
    if (pred == "predict") return {{kLogitsOutput, logits}};
    check(pred == "loss", "no prediction function '{}'", pred);
    return {{kLossOutput, (*loss_)(logits, need_labels(batch, logits))}};
  }

 private:
  static at::Tensor forward(Model& model, const Batch& batch, Pass& pass) {
    return model.forward(need_key(batch, "image", "list it in keep(\"image\", ...)"), pass);
  }
  // Returns the loss of each example, (n) float32.
  at::Tensor weighted_sigmoid_xent(const at::Tensor& logits, const at::Tensor& labels) const {
    const at::Tensor weights = pos_weight_.on(labels.options());
    return (labels * weights * at::softplus(-logits) + (1 - labels) * at::softplus(logits)).sum(-1);
  }

  std::unique_ptr<Loss> loss_;
  const double smoothing_;
  const std::vector<std::string> class_names_;  // of the training data; may be empty
  const bool one_class_;                        // per image
  const bool multilabel_;
  mutable std::atomic<bool> warned_of_none_ = false, warned_of_several_ = false;
  Constant weights_;     // (classes) float32; undefined if all classes have equal weight
  Constant pos_weight_;  // (classes) or (1) float32; undefined without `pos_weight`
};
const Register<Task, Classify> registered_classify("classify");

}  // namespace
}  // namespace bv
