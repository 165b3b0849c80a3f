// classify: the task of assigning images to classes.
//
// A batch has "image" (n, h, w, c) float32 and, for the loss, dense labels "labels" (n, classes)
// float32. The loss is the config's `loss` (lib/model/loss.h). Training smooths the labels y to
// y (1 - ls) + ls / classes with `label_smoothing: ls`.
#include <fmt/ranges.h>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/model/loss.h"
#include "lib/tasks/task.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable keys(
    "task: classify",
    {"Teaches the model to assign images to classes. Each example must have a float `image` and "
     "`labels`, one number per class, which the op `onehot` makes; an image may have several "
     "classes or none. What is minimised is the `loss`, with `label_smoothing` in training only.",
     "task: classify\n"
     "loss: softmax_xent\n"
     "input:\n"
     "  data: {name: digits, split: train}\n"
     "  batch_size: 100\n"
     "  pp: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|"
     "keep(\"image\", \"labels\")"},
    {});

[[noreturn]] void refuse(const std::string& why) { throw Error::in("classify", Exit::usage, why); }

const at::Tensor& need_key(const Batch& batch, const char* key, const char* hint) {
  const auto found = batch.find(key);
  if (found != batch.end()) return found->second;
  std::vector<std::string> keys;
  for (const auto& [name, tensor] : batch) keys.push_back(name);
  refuse(fmt::format("a batch has no '{}', only {}; {}", key, fmt::join(keys, ", "), hint));
}

const at::Tensor& need_labels(const Batch& batch, const at::Tensor& logits) {
  const at::Tensor& labels =
      need_key(batch, "labels",
               "make them with onehot(C, key=\"label\", key_result=\"labels\") and name them in "
               "keep(\"image\", \"labels\")");
  if (labels.scalar_type() != at::kFloat) {
    refuse(
        fmt::format("'labels' must be float32 (n, {}), got {} {}; make them with "
                    "onehot({}, key=\"label\", key_result=\"labels\")",
                    logits.size(-1), dtype_name(labels.scalar_type()), shape_text(labels.sizes()),
                    logits.size(-1)));
  }
  if (labels.sizes() != logits.sizes()) {
    refuse(
        fmt::format("'labels' are {} but the model's logits are {}; is num_classes the "
                    "number that onehot(...) has?",
                    shape_text(labels.sizes()), shape_text(logits.sizes())));
  }
  return labels;
}

// Losses of big_vision's utils.py that need inputs which no batch of this task has.
constexpr std::pair<const char*, const char*> kOthers[] = {
    {"weighted_softmax_xent",
     "it needs class numbers and weights of every token of a sequence, which no task supplies; for "
     "images of classes use softmax_xent or sigmoid_xent"},
    {"bidirectional_contrastive_loss",
     "it needs embeddings of images and of texts, which no task supplies; for images of classes "
     "use softmax_xent or sigmoid_xent"}};

std::unique_ptr<Loss> make_loss(const TaskEnv& env) {
  for (const auto& [name, why] : kOthers) {
    if (env.loss_name == name)
      throw Error(Exit::usage, env.loss_place, fmt::format("loss '{}': {}", name, why));
  }
  return Loss::Registry::make(env.loss_name, Config(), env.loss_place);
}

class Classify : public Task {
 public:
  Classify(const Config&, const TaskEnv& env)
      : loss_(make_loss(env)), smoothing_(env.label_smoothing) {}

  at::Tensor loss(Model& model, const Batch& batch, Pass& pass) const override {
    const at::Tensor logits = forward(model, batch, pass);
    const at::Tensor& labels = need_labels(batch, logits);
    if (smoothing_ == 0) return (*loss_)(logits, labels).mean();
    const double share = smoothing_ / static_cast<double>(logits.size(-1));
    return (*loss_)(logits, labels.mul(1 - smoothing_).add_(share)).mean();
  }

  std::vector<std::string> predictions() const override { return {"predict", "loss"}; }

  Outputs predict(const std::string& pred, Model& model, const Batch& batch,
                  Pass& pass) const override {
    const at::Tensor logits = forward(model, batch, pass);
    if (pred == "predict") return {{"logits", logits}};
    check(pred == "loss", "no prediction function '{}'", pred);
    return {{"loss", (*loss_)(logits, need_labels(batch, logits))}};
  }

 private:
  static at::Tensor forward(Model& model, const Batch& batch, Pass& pass) {
    return model.forward(need_key(batch, "image", "name it in keep(\"image\", ...)"), pass);
  }
  std::unique_ptr<Loss> loss_;
  double smoothing_;
};
const Register<Task, Classify> registered("classify");

}  // namespace
}  // namespace bv
