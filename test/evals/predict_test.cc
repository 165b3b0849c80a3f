// bind_prediction(): outputs, the activations that are requested, and errors for unknown ones.
#include "lib/model/model.h"
#include "test/evals/support.h"

namespace bv::test {
namespace {

class TwoLayers : public Model {
 public:
  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    kept = 0;
    const at::Tensor flat = image.flatten(1);
    pass.keep("encoder/block00/+sa", flat);
    pass.keep("pre_logits", flat * 2);
    if (pass.features) kept = pass.features->size();
    return flat * 3;
  }
  size_t kept = 0;
};

std::unique_ptr<Task> classify() {
  return Task::Registry::make("classify", Config(), {}, {.loss_name = "softmax_xent"});
}

TEST_CASE("predictions come with the requested activations, and no others") {
  TwoLayers model;
  const auto task = classify();
  const Predict predict = bind_prediction(*task, "predict", model, Precision::float32);
  const Batch batch = {{"image", noise({2, 1, 1, 3}, 1).requires_grad_(true)}};
  Outputs outputs = predict(batch, {});
  CHECK(outputs.size() == 1);
  CHECK(model.kept == 0);
  CHECK_FALSE(outputs.at("logits").requires_grad());
  outputs = predict(batch, {"logits", "pre_logits"});
  CHECK(outputs.size() == 2);
  CHECK(model.kept == 1);
  CHECK(outputs.at("pre_logits").equal(batch.at("image").flatten(1) * 2));
  outputs = predict(batch, {"encoder/block00/+sa"});
  CHECK(outputs.at("encoder/block00/+sa").equal(batch.at("image").flatten(1)));
}

TEST_CASE("an activation that the model does not have is refused with a list of those it has") {
  TwoLayers model;
  const auto task = classify();
  CHECK_THROWS_WITH(bind_prediction(*task, "predict", model, Precision::float32)(
                        {{"image", noise({2, 1, 1, 3}, 1)}}, {"prelogits"}),
                    "error: the model has no output 'prelogits'; it has: encoder/block00/+sa, "
                    "logits, pre_logits");
}

}  // namespace
}  // namespace bv::test
