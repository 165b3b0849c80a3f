// The classification task: its loss, smoothing, predictions, and the batches that it rejects.
#include <ATen/ops/arange.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "lib/tasks/task.h"
#include "test/support/error.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

// A model whose logits are the values of the image times a weight.
class ScaleModel : public Model {
 public:
  ScaleModel() {
    weight_ = add_parameter("weight", {}, [](at::Tensor& t, uint64_t) { t.fill_(1); });
    init_parameters(*this, 0, std::nullopt);
  }
  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    const at::Tensor logits = image.reshape({image.size(0), -1}) * weight_;
    pass.keep("logits", logits);
    return logits;
  }

 private:
  at::Tensor weight_;
};

std::unique_ptr<Task> make_classify(double smoothing = 0,
                                    const std::string& loss = "softmax_xent") {
  return Task::Registry::make("classify", Config(), {},
                              {.loss_name = loss, .label_smoothing = smoothing});
}

Batch classify_batch() {
  return {{"image", at::arange(6, at::kFloat).reshape({2, 1, 1, 3})},
          {"labels", at::tensor({0.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F}).reshape({2, 3})}};
}

std::string batch_refusal(const Batch& batch) {
  ScaleModel model;
  Pass pass;
  return error_of([&] { make_classify()->loss(model, batch, pass); });
}

}  // namespace

TEST_CASE("the registered tasks") {
  CHECK(Task::Registry::names() == std::vector<std::string>{"classify", "regress"});
}

TEST_CASE("the loss is the mean over the batch and has a gradient") {
  ScaleModel model;
  Pass pass;
  const at::Tensor loss = make_classify()->loss(model, classify_batch(), pass);
  const at::Tensor log_p = at::log_softmax(at::arange(3, at::kFloat), 0);
  CHECK(loss.dim() == 0);
  CHECK(loss.item<float>() == Approx(-(log_p[1] + log_p[0]).item<float>() / 2));
  loss.backward();
  CHECK(named_parameters(model)[0].second.grad().defined());
}

TEST_CASE("smoothed labels: y (1 - ls) + ls / C, in training only") {
  ScaleModel model;
  Pass pass;
  Batch smoothed = classify_batch();
  smoothed["labels"] = classify_batch().at("labels") * 0.7 + 0.1;
  CHECK(make_classify(0.3)->loss(model, classify_batch(), pass).item<float>() ==
        Approx(make_classify()->loss(model, smoothed, pass).item<float>()));
  CHECK(make_classify(0.3)->loss(model, classify_batch(), pass).item<float>() !=
        Approx(make_classify()->loss(model, classify_batch(), pass).item<float>()));
  CHECK(make_classify(0.3)
            ->predict("loss", model, classify_batch(), pass)
            .at("loss")
            .equal(make_classify()->predict("loss", model, classify_batch(), pass).at("loss")));
}

TEST_CASE("predictions") {
  ScaleModel model;
  Features features;
  Pass pass;
  pass.features = &features;
  const auto task = make_classify(0, "sigmoid_xent");
  for (const PredictionFunction& function : task->predictions()) {
    const Outputs given = task->predict(function.name, model, classify_batch(), pass);
    CHECK(given.size() == 1);
    CHECK(given.contains(function.output));
  }
  features.clear();
  const Outputs outputs = task->predict("predict", model, classify_batch(), pass);
  CHECK(outputs.at("logits").sizes() == at::IntArrayRef{2, 3});
  CHECK(features.contains("logits"));
  CHECK(task->predict("predict", model, {{"image", classify_batch().at("image")}}, pass).size() ==
        1);
  const at::Tensor each = task->predict("loss", model, classify_batch(), pass).at("loss");
  CHECK(each.sizes() == at::IntArrayRef{2});
  CHECK(each.mean().item<float>() ==
        Approx(task->loss(model, classify_batch(), pass).item<float>()));
}

TEST_CASE("batches from a wrong pp string are refused") {
  Batch no_labels = classify_batch();
  no_labels.erase("labels");
  no_labels["label"] = at::zeros({2}, at::kLong);
  CHECK(batch_refusal(no_labels) ==
        "[classify] a batch has no 'labels', only image, label; make them with onehot(C, "
        "key=\"label\", key_result=\"labels\") and list them in keep(\"image\", \"labels\")");
  CHECK(batch_refusal({{"labels", at::ones({2, 3})}}) ==
        "[classify] a batch has no 'image', only labels; list it in keep(\"image\", ...)");
  Batch ids = classify_batch();
  ids["labels"] = at::zeros({2}, at::kLong);
  CHECK(batch_refusal(ids) ==
        "[classify] 'labels' must be float32 (n, 3), got int64 (2); make them with onehot(3, "
        "key=\"label\", key_result=\"labels\")");
  ids["labels"] = at::zeros({2, 3}, at::kLong);
  CHECK(batch_refusal(ids) ==
        "[classify] 'labels' must be float32 (n, 3), got int64 (2, 3); if they are 0 or 1 for each "
        "class, value_range(0, 1, 0, 1, key=\"labels\") does that");
  Batch wide = classify_batch();
  wide["labels"] = at::ones({2, 4});
  CHECK(batch_refusal(wide) ==
        "[classify] 'labels' are (2, 4) but the model's logits are (2, 3); does num_classes equal "
        "the depth of onehot(...)?");
}

TEST_CASE("softmax_xent warns once of images without a class or with several") {
  const auto warned = [](const Task& task, std::vector<float> labels) {
    const Batch batch = {{"labels", at::tensor(labels).reshape({-1, 3})}};
    return logged([&] { task.check_training_values(batch); });
  };
  const auto task = make_classify();
  CHECK(warned(*task, {0, 1, 0, 0.5F, 0.25F, 0.25F}).empty());
  CHECK_THAT(warned(*task, {0, 1, 0, 0, 0, 0}),
             Catch::Contains("classify: 1 of the 2 images of a batch have no class: all their "
                             "`labels` are 0, so softmax_xent learns nothing from them"));
  CHECK_THAT(warned(*task, {0, 1, 1, 1, 1, 0, 0, 0, 0}),
             Catch::Contains("classify: 2 of the 3 images of a batch have several classes"));
  CHECK(warned(*task, {0, 1, 1, 0, 0, 0}).empty());
  CHECK(warned(*make_classify(0, "sigmoid_xent"), {0, 1, 1, 0, 0, 0}).empty());
  // Each place of a long row counts.
  for (int64_t c = 0; c < 11; ++c) {
    const at::Tensor one = at::zeros({1, 11});
    one[0][c] = 1;
    CHECK(logged([&] { make_classify()->check_training_values({{"labels", one}}); }).empty());
    one[0][(c + 5) % 11] = 1;
    CHECK_FALSE(logged([&] { make_classify()->check_training_values({{"labels", one}}); }).empty());
  }
}

TEST_CASE("one number per example is refused with what num_classes: 1 needs") {
  ScaleModel model;
  Pass pass;
  const Batch batch = {{"image", at::ones({2, 1, 1, 1})}, {"labels", at::ones({2})}};
  CHECK(error_of([&] { make_classify(0, "sigmoid_xent")->loss(model, batch, pass); }) ==
        "[classify] 'labels' are one number per example, (2), but num_classes: 1 needs (2, 1): add "
        "reshape([1], key=\"labels\") to pp; or use num_classes: 2 and make them with onehot(2)");
}

TEST_CASE("the softmax of one output is always 1, so it is refused as a loss") {
  const auto refused = [](const std::string& loss, int64_t outputs) {
    return error_of([&] {
      Task::Registry::make("classify", Config(), {}, {.loss_name = loss, .num_classes = outputs});
    });
  };
  CHECK_THAT(refused("softmax_xent", 1),
             Catch::Contains("the softmax of one output is always 1") &&
                 Catch::Contains("use num_classes: 2 with onehot(2), or one output with loss: "
                                 "sigmoid_xent, task_kw: {multilabel: true}"));
  CHECK(refused("softmax_xent", 2).empty());
  CHECK(refused("sigmoid_xent", 1).empty());
}

TEST_CASE("an unknown loss names the known ones") {
  CHECK_THROWS_WITH(
      Task::Registry::make(
          "classify", Config(), {},
          {.loss_name = "softmax", .loss_place = {.file = "t.yaml", .line = 3, .column = 7}}),
      Catch::StartsWith("t.yaml:3:7: error: unknown loss 'softmax'"));
}

}  // namespace bv::test
