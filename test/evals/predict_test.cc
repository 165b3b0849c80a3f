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

TEST_CASE("labels outside 0 and 1 are refused, also for evaluators that read the logits") {
  TwoLayers model;
  const auto task = Task::Registry::make("classify", parse_config("{multilabel: true}", "t.yaml"),
                                         {}, {.loss_name = "sigmoid_xent"});
  const Batch batch = {{"image", noise({2, 1, 1, 3}, 1)}, {"labels", at::full({2, 3}, -1.0f)}};
  for (const char* pred : {"predict", "loss"}) {
    CHECK_THROWS_WITH(bind_prediction(*task, pred, model, Precision::float32)(batch, {}),
                      Catch::Contains("'labels' must be within 0 and 1, got -1"));
  }
}

// Its output is the image itself.
class Pixels : public Model {
 public:
  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    pass.keep("pre_logits", image.flatten(1));
    return image.flatten(1);
  }
};

TEST_CASE("tta: outputs are the mean over the forms of the images") {
  Pixels model;
  const auto task = classify();
  const at::Tensor image = noise({2, 4, 5, 1}, 1);
  const auto mean = [&](const Tta& tta) {
    const Predict predict = bind_prediction(*task, "predict", model, Precision::float32, tta);
    return predict({{"image", image}}, {}).at("logits").view(image.sizes());
  };
  CHECK(mean({}).equal(image));
  CHECK(at::allclose(mean({.mirror = true}), (image + image.flip({2})) / 2));
  // Row y of the image that moved up is row y + 1; below the last row comes the one before it.
  const at::Tensor up =
      image.index({at::indexing::Slice(), at::tensor({1, 2, 3, 2})})
          .index({at::indexing::Slice(), at::indexing::Slice(), at::tensor({1, 2, 3, 4, 3})});
  const at::Tensor down =
      image.index({at::indexing::Slice(), at::tensor({1, 0, 1, 2})})
          .index({at::indexing::Slice(), at::indexing::Slice(), at::tensor({1, 0, 1, 2, 3})});
  const at::Tensor moved = image / 2 + (up + down) / 4;
  CHECK(at::allclose(mean({.shift = 1}), moved));
  CHECK(at::allclose(mean({.mirror = true, .shift = 1}), (moved + moved.flip({2})) / 2));
  CHECK_THROWS_WITH(mean({.shift = 4}),
                    "error: tta.shift of 4 pixels is too much for images of 4x5");
  const Predict predict =
      bind_prediction(*task, "predict", model, Precision::float32, {.mirror = true});
  CHECK_THROWS_WITH(predict({{"image", image}}, {"pre_logits"}),
                    "error: tta averages the model's outputs, but this evaluator uses the "
                    "activation 'pre_logits'; remove tta");
}

// Takes images of 4x4 only.
class Fixed : public Pixels {
 public:
  bool takes_size(int64_t height, int64_t width) const override {
    return height == 4 && width == 4;
  }
};

TEST_CASE("images of a size that the model does not take are refused") {
  Fixed model;
  const auto task = classify();
  const Predict predict = bind_prediction(*task, "predict", model, Precision::float32);
  CHECK(predict({{"image", noise({2, 4, 4, 1}, 1)}}, {}).size() == 1);
  CHECK_THROWS_WITH(predict({{"image", noise({2, 2, 8, 1}, 1)}}, {}),
                    "error: the images are 2x8, but the model was built for another size and "
                    "cannot take them; make pp_fn resize them");
}

}  // namespace
}  // namespace bv::test
