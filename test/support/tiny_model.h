// A model of about 400 parameters, and a training step for it: for tests that need any step.
#pragma once

#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <memory>
#include <string>

#include "lib/config/load_config.h"
#include "lib/model/dropout.h"
#include "lib/model/layers.h"
#include "lib/train/step/step.h"
#include "lib/util/rng.h"

namespace bv::test {

// Two dense layers with ReLU and dropout between them, from (n, 2, 2, 3) to (n, 5), and a buffer:
// the moving mean of the outputs. The kernels are stored transposed, as those of every Dense.
class TinyModel : public Model {
 public:
  explicit TinyModel(double dropout = 0, uint64_t seed = 1) : dropout_(dropout) {
    body_ = Dense::add(*this, "body", 12, 24, lecun_normal(12));
    head_ = Dense::add(*this, "head", 24, 5, lecun_normal(24));
    mean_ = add_buffer("mean", at::zeros({5}));
    init_parameters(*this, seed, std::nullopt);
  }
  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    at::Tensor x = at::relu(body_(image.reshape({image.size(0), -1}), pass));
    x = head_.head(dropout(x, dropout_, pass), pass);
    if (pass.train) {
      const c10::AutoGradMode no_grad(false);
      mean_.lerp_(x.mean(0), 0.1);
    }
    return x;
  }

 private:
  double dropout_;
  Dense body_, head_;
  at::Tensor mean_;  // (5)
};

// Returns n examples whose values are a function of `step`: image (n, 2, 2, 3), labels (n, 5)
// one-hot.
inline Batch tiny_batch(int64_t step, int64_t n = 8) {
  Rng rng(7, Purpose::synthetic, static_cast<uint64_t>(step));
  at::Tensor image = at::zeros({n, 2, 2, 3}), labels = at::zeros({n, 5});
  for (int64_t i = 0; i < image.numel(); ++i) {
    image.mutable_data_ptr<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
  }
  for (int64_t i = 0; i < n; ++i) labels.mutable_data_ptr<float>()[i * 5 + rng.below(5)] = 1;
  return {{"image", image}, {"labels", labels}};
}

inline std::unique_ptr<Task> softmax_task() {
  return Task::Registry::make("classify", Config(), {}, {.loss_name = "softmax_xent"});
}

// A model, its task and a training step, from the keys of the step.
struct TinyRun {
  explicit TinyRun(const std::string& yaml, double dropout = 0, int64_t total_steps = 20,
                   uint64_t seed = 1)
      : model(dropout, seed), task(softmax_task()) {
    const Config config = parse_config(yaml, "t.yaml");
    const RunLength length{.batch_size = 8, .data_size = 160, .total_steps = total_steps};
    StepConfig step_config = read_step(config, model, length);
    step_config.grad_accum_steps = read_grad_accum_steps(config, model, length.batch_size, {});
    config.done();
    throw_problems(config);
    step = std::make_unique<TrainStep>(model, *task, std::move(step_config), 3, Precision::float32);
  }
  void run(int64_t from, int64_t to) {
    for (int64_t i = from; i <= to; ++i) step->run(i, tiny_batch(i), true);
  }
  TinyModel model;
  std::unique_ptr<Task> task;
  std::unique_ptr<TrainStep> step;
};

}  // namespace bv::test
