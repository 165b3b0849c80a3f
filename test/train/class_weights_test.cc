// Class weights, and labels with several classes: the task classify with its arguments.
#include "lib/tasks/class_weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "lib/train/training_labels.h"
#include "test/input/fake_source.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

TaskEnv env(const std::string& loss = "softmax_xent", double smoothing = 0) {
  return {.loss_name = loss, .label_smoothing = smoothing, .num_classes = 5, .label_counts = [] {
            return LabelCounts{{0, 10}, {1, 1}, {2, 5}, {3, 4000}, {4, 2}};
          }};
}

std::unique_ptr<Task> make(const std::string& kw, const TaskEnv& of = env()) {
  return from_yaml(
      kw, [&](const Config& config) { return Task::Registry::make("classify", config, {}, of); });
}

std::vector<double> weights(const std::string& kw) {
  return from_yaml(kw, [](const Config& config) { return read_class_weights(config, env()); });
}

std::string refusal(const std::string& kw, const TaskEnv& of = env()) {
  return error_of([&] { make(kw, of); });
}

// The weighted mean of torch, over all examples of the batch.
double torch_loss(const at::Tensor& logits, const at::Tensor& labels,
                  const std::vector<float>& weights, double smoothing) {
  return at::cross_entropy_loss(logits, labels.argmax(1), at::tensor(weights), at::Reduction::Mean,
                                -100, smoothing)
      .item<double>();
}

// A source whose labels are known.
class Labelled : public FakeSource {
 public:
  explicit Labelled(at::Tensor labels) : FakeSource(labels.numel()), labels_(std::move(labels)) {}
  at::Tensor labels(size_t) const override { return labels_; }

 private:
  const at::Tensor labels_;  // (size,) int64
};

// Returns a mixture of two data sets: 1000 examples of class 0; 80 of class 1 and 20 of class 0.
TrainingData two_data_sets(double first_weight, double second_weight) {
  const auto labels = [](int64_t zeros, int64_t ones) {
    return at::cat({at::zeros({zeros}, at::kLong), at::ones({ones}, at::kLong)});
  };
  return TrainingData({{"a", dataset(std::make_shared<Labelled>(labels(1000, 0))),
                        pipeline("value_range(0, 1)"), first_weight},
                       {"b", dataset(std::make_shared<Labelled>(labels(20, 80))),
                        pipeline("value_range(0, 1)"), second_weight}});
}

const std::vector<float> kWeights = {0.5F, 2, 1, 4, 0.25F};
const char* const kListed = "{class_weights: [0.5, 2, 1, 4, 0.25]}";

}  // namespace

TEST_CASE("balanced weights: examples / (classes * count)") {
  CHECK(weights("{}").empty());
  CHECK(weights("{class_weights: [1, 2, 3, 4, 5.5]}") == std::vector<double>{1, 2, 3, 4, 5.5});
  const std::vector<double> balanced = weights("{class_weights: balanced}");
  REQUIRE(balanced.size() == 5);
  CHECK(balanced[0] == Approx(4018 / (5. * 10)));
  CHECK(balanced[3] == Approx(4018 / (5. * 4000)));
}

TEST_CASE("the label counts of a mixture follow from the shares of its data sets") {
  for (const auto& [first, second] :
       std::vector<std::pair<double, double>>{{1, 1}, {3, 1}, {10, 1}, {1e-3, 1}}) {
    const TrainingData data = two_data_sets(first, second);
    const LabelCounts counts = count_labels(data);
    REQUIRE(counts.size() == 2);
    const double share = second / (first + second);
    CHECK(counts.at(1) == Approx(1100 * share * 0.8));
    CHECK(counts.at(0) == Approx(1100 * (1 - share * 0.8)));
    // Each class has the same weight in the loss of a long stream.
    const std::vector<double> weights = balanced_weights({counts.at(0), counts.at(1)});
    double zeros = 0, ones = 0;
    constexpr int64_t kPositions = 1 << 16;
    for (int64_t p = 0; p < kPositions; ++p) {
      const TrainingData::Pick pick = data.pick(p, 7, true);
      const bool one = pick.part == 1 && pick.index >= 20;
      (one ? ones : zeros) += weights.at(one ? 1 : 0) / kPositions;
    }
    CHECK(zeros == Approx(0.5).epsilon(0.01));
    CHECK(ones == Approx(0.5).epsilon(0.01));
  }
}

TEST_CASE("the examples of a mixture say where each data set begins") {
  const TrainingData data = two_data_sets(1, 1);
  CHECK(labelled_examples(data, 7, {}).parts == std::vector<int64_t>{0, 1000});
}

TEST_CASE("weights are not counted from another feature than the labels") {
  TaskEnv other = env();
  other.label_feature = "coarse_label";
  CHECK_THAT(refusal("{class_weights: balanced}", other),
             Catch::EndsWith("class_weights: 'balanced' counts the classes of the feature 'label', "
                             "but input.pp makes the labels from 'coarse_label'; give a list of 5 "
                             "weights"));
  CHECK(refusal("{class_weights: [1, 2, 3, 4, 5.5]}", other).empty());
}

TEST_CASE("effective weights: (1 - b) / (1 - b^count), of mean 1") {
  for (const double beta : {0., 0.9, 0.999, 0.999999}) {
    const std::vector<double> found = effective_weights({10, 1, 5, 4000}, beta);
    std::vector<double> expected;
    double sum = 0;
    for (const int count : {10, 1, 5, 4000}) {
      expected.push_back((1 - beta) / (1 - std::pow(beta, count)));
      sum += expected.back();
    }
    for (size_t c = 0; c < 4; ++c) CHECK(found[c] == Approx(expected[c] * 4 / sum).epsilon(1e-9));
  }
  const std::vector<double> found = weights("{class_weights: effective, class_weights_beta: 0.9}");
  CHECK(found == effective_weights({10, 1, 5, 4000, 2}, 0.9));
  CHECK(weights("{class_weights: effective}") == effective_weights({10, 1, 5, 4000, 2}, 0.999));
}

TEST_CASE("a weighted step has torch's loss and gradient, whatever the number of micro-batches") {
  for (const double smoothing : {0., 0.1}) {
    std::optional<NamedTensors> first;
    for (const int micro_batches : {1, 2, 8}) {
      INFO(micro_batches << " micro-batches, smoothing " << smoothing);
      TinyModel model;
      Pass pass;
      pass.train = true;
      const double expected = torch_loss(model.forward(tiny_batch(1).at("image"), pass),
                                         tiny_batch(1).at("labels"), kWeights, smoothing);
      const auto task = make(kListed, env("softmax_xent", smoothing));
      const Config config = parse_config(
          fmt::format("{{optax_name: sgd, lr: 1, grad_accum_steps: {}}}", micro_batches), "t.yaml");
      const RunLength length{.batch_size = 8, .data_size = 160, .total_steps = 20};
      StepConfig step_config = read_step(config, model, length);
      step_config.grad_accum_steps = read_grad_accum_steps(config, model, 8, {});
      TrainStep step(model, *task, std::move(step_config), 3, Precision::float32);
      step.run(1, tiny_batch(1), true);
      double loss = 0;
      for (const auto& [name, value] : step.measurements(1))
        if (name == "training_loss") loss = value;
      CHECK(loss == Approx(expected).epsilon(1e-6));
      const NamedTensors state = step.state();
      if (!first) {
        first = state;
        // The gradient is that of torch's loss.
        TinyModel fresh;
        at::cross_entropy_loss(fresh.forward(tiny_batch(1).at("image"), pass),
                               tiny_batch(1).at("labels").argmax(1), at::tensor(kWeights),
                               at::Reduction::Mean, -100, smoothing)
            .backward();
        for (const auto& [name, value] : named_parameters(fresh)) {
          const at::Tensor moved = value.detach() - value.grad();
          CHECK((state.at("params/" + name) - moved).abs().max().item<double>() < 1e-6);
        }
      }
      for (const auto& [name, value] : state) {
        if (name.starts_with("params/"))
          CHECK((value - first->at(name)).abs().max().item<double>() < 1e-6);
      }
    }
  }
}

TEST_CASE("a batch without labelled examples changes nothing, whatever the smoothing") {
  for (const double smoothing : {0., 0.1}) {
    INFO("smoothing " << smoothing);
    TinyModel model;
    const TinyModel fresh;
    const auto task = make(kListed, env("softmax_xent", smoothing));
    const Config config = parse_config("{optax_name: sgd, lr: 1}", "t.yaml");
    const RunLength length{.batch_size = 8, .data_size = 160, .total_steps = 20};
    TrainStep step(model, *task, read_step(config, model, length), 3, Precision::float32);
    Batch batch = tiny_batch(1);
    batch.at("labels").zero_();
    step.run(1, batch, true);
    CHECK(step.non_finite().empty());
    for (const auto& [name, value] : step.measurements(1))
      if (name == "training_loss") CHECK(value == 0);
    const NamedTensors state = step.state();
    for (const auto& [name, value] : named_parameters(fresh))
      CHECK(state.at("params/" + name).equal(value.detach()));
  }
}

TEST_CASE("pred: loss does not weight") {
  TinyModel model;
  Pass pass;
  const at::Tensor weighted = make(kListed)->predict("loss", model, tiny_batch(1), pass).at("loss");
  CHECK(weighted.equal(make("{}")->predict("loss", model, tiny_batch(1), pass).at("loss")));
  CHECK_FALSE(make("{}")->weight(tiny_batch(1)).defined());
}

TEST_CASE("pos_weight weights the images that have a class") {
  TinyModel model;
  Pass pass;
  Batch batch = tiny_batch(1);
  const at::Tensor logits = model.forward(batch.at("image"), pass).detach().to(at::kDouble);
  batch.at("labels").select(1, 0).fill_(1);  // several classes per image
  batch.at("labels").select(1, 1).fill_(0.25);
  const auto loss = [&](const std::string& kw, double smoothing) {
    return make(kw, env("sigmoid_xent", smoothing))->loss(model, batch, pass).item<double>();
  };
  const auto expected = [&](const at::Tensor& weights, double smoothing) {
    const at::Tensor y =
        batch.at("labels").to(at::kDouble) * (1 - smoothing) + smoothing / kWeights.size();
    const at::Tensor p = logits.sigmoid();
    return -(weights * y * p.log() + (1 - y) * (1 - p).log()).sum(1).mean().item<double>();
  };
  for (const double smoothing : {0., 0.1}) {
    INFO("smoothing " << smoothing);
    CHECK(loss("{pos_weight: [0.5, 2, 1, 4, 0.25]}", smoothing) ==
          Approx(expected(at::tensor(kWeights), smoothing)).epsilon(1e-6));
    CHECK(loss("{pos_weight: 3}", smoothing) ==
          Approx(expected(at::tensor({3.0}), smoothing)).epsilon(1e-6));
  }
  CHECK(loss("{pos_weight: 1}", 0) == Approx(loss("{}", 0)).epsilon(1e-6));
  // Evaluators do not use it.
  const auto measured = [&](const std::string& kw) {
    return make(kw, env("sigmoid_xent"))->predict("loss", model, batch, pass).at("loss");
  };
  CHECK(measured("{pos_weight: 3}").equal(measured("{}")));
}

TEST_CASE("a pos_weight that does not fit is refused") {
  const TaskEnv sigmoid = env("sigmoid_xent");
  CHECK(refusal("{pos_weight: 3}", sigmoid).empty());
  CHECK_THAT(refusal("{pos_weight: [1, 2]}", sigmoid),
             Catch::EndsWith("pos_weight: has 2 weights, but num_classes is 5"));
  for (const char* const weights : {"0", "-1", "[1, 2, 0, 1, 1]"}) {
    CHECK_THAT(refusal(fmt::format("{{pos_weight: {}}}", weights), sigmoid),
               Catch::EndsWith("pos_weight: must be positive"));
  }
  CHECK_THAT(refusal("{pos_weight: 3}"),
             Catch::EndsWith("pos_weight: needs loss: sigmoid_xent, not softmax_xent; "
                             "class_weights weights the classes of softmax_xent"));
}

TEST_CASE("class_weights that do not fit are refused") {
  CHECK_THAT(refusal("{class_weights: balance}"),
             Catch::EndsWith("class_weights: expected balanced, effective or a list of numbers, "
                             "got 'balance'"));
  CHECK_THAT(refusal("{class_weights: [1, 2]}"),
             Catch::EndsWith("class_weights: has 2 weights, but num_classes is 5"));
  CHECK_THAT(refusal("{class_weights: [1, 2, 0, 1, 1]}"),
             Catch::EndsWith("class_weights: must be positive numbers"));
  CHECK_THAT(refusal("{class_weights: balanced}", env("sigmoid_xent")),
             Catch::EndsWith("class_weights: needs loss: softmax_xent, not sigmoid_xent; "
                             "pos_weight weights the classes of sigmoid_xent"));
  CHECK_THAT(refusal("{class_weights: effective, class_weights_beta: 1}"),
             Catch::EndsWith("class_weights_beta: must be at least 0 and below 1, got 1"));
  CHECK_THAT(refusal("{class_weights: balanced, class_weights_beta: 0.9}"),
             Catch::EndsWith("class_weights_beta: has no effect without class_weights: effective"));
  TaskEnv unknown = env();
  unknown.label_counts = [] { return LabelCounts(); };
  CHECK_THAT(refusal("{class_weights: balanced}", unknown),
             Catch::EndsWith("class_weights: 'balanced' needs training data whose labels are known "
                             "before its examples are read; give a list of 5 weights"));
  TaskEnv absent = env();
  absent.label_counts = [] { return LabelCounts{{0, 3}, {2, 1}, {4, 1}}; };
  CHECK_THAT(refusal("{class_weights: balanced}", absent),
             Catch::EndsWith("class_weights: 'balanced' cannot weight classes without a training "
                             "example: 1, 3; give a list of 5 weights"));
  absent.class_names = {"ant", "bee", "cat"};
  CHECK_THAT(refusal("{class_weights: balanced}", absent),
             Catch::EndsWith("class_weights: 'balanced' cannot weight classes without a training "
                             "example: bee, 3; give a list of 5 weights"));
  // An evaluation knows no training data, and needs no weights.
  TaskEnv evaluation = env();
  evaluation.label_counts = {};
  CHECK(refusal("{class_weights: balanced}", evaluation).empty());
}

TEST_CASE("class weights as a mapping are refused with what they may be") {
  CHECK_THAT(
      refusal("{class_weights: {0: 1, 1: 2}}"),
      Catch::EndsWith("class_weights: expected balanced, effective or a list of 5 numbers in "
                      "the order of the classes, got a mapping"));
}

TEST_CASE("multilabel needs a loss that judges each class, and labels that are probabilities") {
  CHECK_THAT(refusal("{multilabel: true}"),
             Catch::EndsWith("multilabel: needs loss: sigmoid_xent, which treats each class "
                             "independently; softmax_xent chooses one class"));
  const auto task = make("{multilabel: true}", env("sigmoid_xent"));
  TinyModel model;
  Pass pass;
  Batch batch = tiny_batch(1);
  CHECK(task->loss(model, batch, pass)
            .equal(make("{}", env("sigmoid_xent"))->loss(model, batch, pass)));
  task->check_values(batch);
  batch["labels"] = batch.at("labels") * 3;
  CHECK(error_of([&] { task->check_values(batch); }) ==
        "[classify] with multilabel 'labels' must be within 0 and 1, got 3");
  const Config config = parse_config("{optax_name: sgd, lr: 1}", "t.yaml");
  TrainStep step(model, *task, read_step(config, model, {.total_steps = 20}), 3,
                 Precision::float32);
  const NamedTensors before = step.state();
  CHECK(error_of([&] { step.run(1, batch, true); }) ==
        "[classify] with multilabel 'labels' must be within 0 and 1, got 3");
  CHECK(step.count() == 0);
  for (const auto& [name, value] : step.state()) CHECK(value.equal(before.at(name)));
}

}  // namespace bv::test
