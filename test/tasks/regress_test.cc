// The task regress: losses, the target scale, and rejected inputs.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/model/target_scale.h"
#include "lib/tasks/task.h"
#include "test/support/config.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

// A model whose outputs are the values of the image times a weight.
class LinearModel : public Model {
 public:
  LinearModel() {
    weight_ = add_parameter("weight", {}, [](at::Tensor& t, uint64_t) { t.fill_(1); });
    init_parameters(*this, 0, std::nullopt);
  }
  at::Tensor forward(const at::Tensor& image, Pass&) override {
    return image.reshape({image.size(0), -1}) * weight_;
  }

 private:
  at::Tensor weight_;
};

std::unique_ptr<Task> make_regress(const std::string& kw = "{}",
                                   const TaskEnv& env = {.loss_name = "mse"}) {
  return from_yaml(
      kw, [&](const Config& config) { return Task::Registry::make("regress", config, {}, env); });
}

// Two examples of two targets.
Batch regress_batch() {
  return {{"image", at::tensor({0.F, 1.F, 2.F, 3.F}).reshape({2, 1, 1, 2})},
          {"labels", at::tensor({10.F, 500.F, 14.F, 900.F}).reshape({2, 2})}};
}

LabelledExamples examples_of(const at::Tensor& labels) {
  LabelledExamples examples;
  examples.size = labels.size(0);
  examples.quick = [labels](int64_t i) { return Example{{"labels", labels[i]}}; };
  examples.computed = examples.quick;
  examples.describe = [](int64_t i) { return "row " + std::to_string(i); };
  return examples;
}

std::string refusal_to_fit(const LabelledExamples& examples, int64_t targets = 2,
                           Exit code = Exit::usage) {
  LinearModel model;
  const auto task = make_regress();
  task->add_buffers(model, targets);
  return error_of([&] { task->fit(model, examples, examples.computed(0)); }, code);
}

}  // namespace

TEST_CASE("without a scale the losses are torch's") {
  LinearModel model;
  Pass pass;
  const at::Tensor outputs = at::arange(4, at::kFloat).reshape({2, 2});
  const at::Tensor error = outputs - regress_batch().at("labels");
  const std::string raw = "{normalize_targets: false}";
  CHECK(make_regress(raw)->loss(model, regress_batch(), pass).item<float>() ==
        Approx(error.square().mean().item<float>()));
  CHECK(make_regress(raw, {.loss_name = "l1"})->loss(model, regress_batch(), pass).item<float>() ==
        Approx(error.abs().mean().item<float>()));
  CHECK(make_regress("{normalize_targets: false, delta: 100}", {.loss_name = "huber"})
            ->loss(model, regress_batch(), pass)
            .item<float>() ==
        Approx(at::huber_loss(outputs, regress_batch().at("labels"), at::Reduction::Mean, 100)
                   .item<float>()));
  CHECK(make_regress(raw)
            ->predict("predict", model, regress_batch(), pass)
            .at("logits")
            .equal(outputs));
  CHECK(model.buffers().empty());
  const at::Tensor loss = make_regress(raw)->loss(model, regress_batch(), pass);
  loss.backward();
  CHECK(named_parameters(model)[0].second.grad().defined());
}

TEST_CASE("the scale is the mean and the population's standard deviation of all examples") {
  LinearModel model;
  Pass pass;
  const auto task = make_regress();
  task->add_buffers(model, 2);
  const at::Tensor labels = regress_batch().at("labels");
  task->fit(model, examples_of(labels), {{"labels", labels[0]}});
  const auto scale = target_scale(model);
  REQUIRE(scale.has_value());
  CHECK(scale->mean.equal(at::tensor({12.F, 700.F})));
  CHECK(scale->std.equal(at::tensor({2.F, 200.F})));
  // Targets are (-1, -1) and (1, 1); outputs (0, 1) and (2, 3).
  CHECK(task->loss(model, regress_batch(), pass).item<float>() == Approx((1 + 4 + 1 + 4) / 4.));
  CHECK(task->predict("loss", model, regress_batch(), pass)
            .at("loss")
            .equal(at::tensor({2.5F, 2.5F})));
  CHECK(task->predict("predict", model, regress_batch(), pass)
            .at("logits")
            .equal(at::tensor({12.F, 900.F, 16.F, 1300.F}).reshape({2, 2})));
}

TEST_CASE("a preprocessing that changes the labels changes the scale") {
  LinearModel model;
  const auto task = make_regress();
  task->add_buffers(model, 2);
  LabelledExamples examples = examples_of(regress_batch().at("labels"));
  examples.computed = [raw = examples.quick](int64_t i) {
    return Example{{"labels", raw(i).at("labels") * 3}};
  };
  task->fit(model, examples, examples.computed(0));
  CHECK(target_scale(model)->mean.equal(at::tensor({36.F, 2100.F})));
}

TEST_CASE("a preprocessing that changes the labels of a small data set changes the scale") {
  LinearModel model;
  const auto task = make_regress();
  task->add_buffers(model, 1);
  LabelledExamples examples = examples_of(at::arange(100, at::kFloat).reshape({100, 1}));
  examples.parts = {0, 99};
  examples.computed = [raw = examples.quick](int64_t i) {
    return Example{{"labels", raw(i).at("labels") * (i == 99 ? 11 : 1)}};
  };
  task->fit(model, examples, examples.computed(0));
  CHECK(target_scale(model)->mean.item<float>() == Approx(49.5 + 9.9));
}

TEST_CASE("a slice of rows that are sorted by a target gives a warning") {
  const auto warned = [](const at::Tensor& labels, std::vector<bool> sliced,
                         std::vector<int64_t> parts = {0}) {
    LabelledExamples examples = examples_of(labels);
    examples.sliced = std::move(sliced);
    examples.parts = std::move(parts);
    std::string warnings;
    examples.warn_of_split = [&](size_t part, const std::string& why) {
      warnings += std::to_string(part) + ": " + why + "\n";
    };
    CHECK(refusal_to_fit(examples, labels.size(1)).empty());
    return warnings;
  };
  const std::string rest =
      ", so the rest of the split has other values; take a random part of the rows instead, such "
      "as train[not fold 1/5]\n";
  const at::Tensor up = at::arange(30, at::kFloat).view({30, 1});
  CHECK(warned(up, {true}) ==
        "0: the rows are sorted by target 0, which only rises from 0 to 29" + rest);
  CHECK(warned(up.flip(0), {true}) ==
        "0: the rows are sorted by target 0, which only falls from 29 to 0" + rest);
  CHECK(warned(up, {false}).empty());
  CHECK(warned(up, {}).empty());
  CHECK(warned(up.slice(0, 0, 20), {true}).empty());  // too few rows
  const at::Tensor mixed = up.mul(7).remainder(30);
  CHECK(warned(mixed, {true}).empty());
  CHECK(warned(at::cat({mixed, up}, 1), {true}) ==
        "0: the rows are sorted by target 1, which only rises from 0 to 29" + rest);
  // One rare value at the end is no order.
  CHECK(warned(up.ge(28).to(at::kFloat), {true}).empty());
  CHECK(warned(up.ge(15).to(at::kFloat), {true}) ==
        "0: the rows are sorted by target 0, which only rises from 0 to 1" + rest);
  // Each data set has an order of its own.
  CHECK(warned(at::cat({mixed, up}), {true, true}, {0, 30}) ==
        "1: the rows are sorted by target 0, which only rises from 0 to 29" + rest);
}

TEST_CASE("examples that cannot be read are left out within the budget") {
  LabelledExamples examples = examples_of(at::tensor({1.F, 9.F, 5.F, 7.F}).reshape({2, 2}));
  const auto read = examples.quick;
  examples.size = 3;
  examples.quick = examples.computed = [read](int64_t i) {
    if (i == 1) throw Error(Exit::data, "row 1", "truncated");
    return read(i / 2);
  };
  CHECK(refusal_to_fit(examples, 2, Exit::data) == "row 1: error: truncated");
  examples.error_budget = 1;
  CHECK(refusal_to_fit(examples).empty());
}

TEST_CASE("targets without a spread, or that are no numbers, are named") {
  const at::Tensor same = at::tensor({1.F, 3.5F, 2.F, 3.5F}).reshape({2, 2});
  CHECK(refusal_to_fit(examples_of(same)) ==
        "error: target 1 is constant (3.5) in all 2 training examples: there is nothing to learn, "
        "and it cannot be normalized");
  const at::Tensor bad = at::tensor({1.F, 3.F, 2.F, std::nanf("")}).reshape({2, 2});
  CHECK(refusal_to_fit(examples_of(bad)) == "row 1: error: target 1 of 'labels' is nan");
  CHECK(refusal_to_fit(examples_of(bad), 3) ==
        "row 0: error: 'labels' has 2 numbers, but num_classes is 3");
  LabelledExamples lacking = examples_of(regress_batch().at("labels"));
  lacking.computed = [raw = lacking.quick](int64_t i) { return i == 1 ? Example() : raw(i); };
  CHECK(refusal_to_fit(lacking) == "row 1: error: has no 'labels', unlike other examples");
}

TEST_CASE("targets that float32 cannot tell apart are refused") {
  const at::Tensor near = at::tensor({1.F, 1.7e9F, 2.F, 1.7e9F + 256}).reshape({2, 2});
  CHECK(refusal_to_fit(examples_of(near)) ==
        "error: target 1 has values near 1.7e+09, which float32 rounds to multiples of 128, and "
        "their standard deviation is only 128: subtract a constant from them");
  const at::Tensor same = at::tensor({1.F, 1.7e9F, 2.F, 1.7e9F}).reshape({2, 2});
  CHECK_THAT(refusal_to_fit(examples_of(same)),
             Catch::Contains("their standard deviation is only 0"));
}

TEST_CASE("whole numbers are targets unless they are numbers of named classes") {
  Pass pass;
  LinearModel model;
  const Batch whole = {{"image", at::tensor({2.F, 5.F}).reshape({2, 1, 1, 1})},
                       {"label", at::tensor({1, 1}, at::kLong)}};
  CHECK(make_regress("{normalize_targets: false}")->loss(model, whole, pass).item<float>() ==
        Approx((1 + 16) / 2.));
  TaskEnv env = {.loss_name = "mse", .class_names = {"cat", "dog"}};
  CHECK(error_of(
            [&] { make_regress("{normalize_targets: false}", env)->loss(model, whole, pass); }) ==
        "[regress] 'label' is int64: these are class numbers, because the training data has class "
        "names; use task: classify, or give regression targets (csv: label: [COLUMN], "
        "image_folder: label: number)");
  env.label_feature = "age";  // the names are those of `label`
  CHECK(make_regress("{normalize_targets: false}", env)->loss(model, whole, pass).defined());
}

TEST_CASE("one number per example may be called label") {
  LinearModel model;
  Pass pass;
  const Batch one = {{"image", at::tensor({2.F, 5.F}).reshape({2, 1, 1, 1})},
                     {"label", at::tensor({1.F, 1.F})}};
  CHECK(make_regress("{normalize_targets: false}")->loss(model, one, pass).item<float>() ==
        Approx((1 + 16) / 2.));
}

TEST_CASE("regress refuses batches and keys that do not fit") {
  const auto refusal = [](const Batch& batch) {
    LinearModel model;
    Pass pass;
    return error_of([&] { make_regress("{normalize_targets: false}")->loss(model, batch, pass); });
  };
  Batch wide = regress_batch();
  wide["labels"] = at::zeros({2, 3});
  CHECK(refusal(wide) ==
        "[regress] 'labels' are (2, 3) but the model's outputs are (2, 2); num_classes is the "
        "number of targets");
  CHECK(refusal({{"image", regress_batch().at("image")}}) ==
        "[regress] a batch has no 'labels' and no 'label', only image; list one in keep(\"image\", "
        "...)");
  CHECK(error_of([] { make_regress("{}", {.loss_name = "softmax_xent"}); }) ==
        "error: loss 'softmax_xent' does not compare numbers; task: regress has mse, l1 and huber");
  CHECK_THAT(error_of([] { make_regress("{delta: 2}"); }),
             Catch::EndsWith("delta: has no effect with loss: mse"));
  CHECK_THAT(error_of([] { make_regress("{delta: 0}", {.loss_name = "huber"}); }),
             Catch::Contains("delta: must be positive, got 0"));
}

TEST_CASE("a folded scale: the last layer gives values in the units of the targets") {
  const at::Tensor kernel = at::arange(6, at::kFloat).reshape({3, 2}),
                   bias = at::tensor({1.F, 2.F});
  std::map<std::string, at::Tensor> params = {{"head/kernel", kernel}, {"head/bias", bias}};
  std::map<std::string, at::Tensor> buffers = {{kTargetMean, at::tensor({10.F, -20.F})},
                                               {kTargetStd, at::tensor({2.F, 0.5F})}};
  std::map<std::string, at::Tensor> scaled = params, of_scaled = buffers;
  fold_target_scale(params, buffers, "x", 1);
  CHECK(buffers.empty());
  const at::Tensor input = at::tensor({1.F, -1.F, 2.F}).reshape({1, 3});
  const at::Tensor expected =
      (input.matmul(kernel) + bias) * at::tensor({2.F, 0.5F}) + at::tensor({10.F, -20.F});
  CHECK((input.matmul(params.at("head/kernel")) + params.at("head/bias")).allclose(expected));
  CHECK(kernel.equal(at::arange(6, at::kFloat).reshape({3, 2})));  // not written to
  // A model that multiplies the outputs of its last layer by 1/8.
  fold_target_scale(scaled, of_scaled, "x", 0.125);
  CHECK(((input.matmul(scaled.at("head/kernel")) + scaled.at("head/bias")) * 0.125)
            .allclose((input.matmul(kernel) + bias) * 0.125 * at::tensor({2.F, 0.5F}) +
                      at::tensor({10.F, -20.F})));

  buffers = {{kTargetMean, at::zeros({3})}, {kTargetStd, at::zeros({3})}};
  CHECK(error_of([&] { fold_target_scale(params, buffers, "ckpt/step-1", 1); }) ==
        "ckpt/step-1: error: has a target scale but no last layer head/kernel and head/bias to "
        "apply it to");
}

}  // namespace bv::test
