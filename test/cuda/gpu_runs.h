// A GPU for tests, if there is one, and training steps of small models on it.
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/config/load_config.h"
#include "lib/device/cuda.h"
#include "lib/device/device_graph.h"
#include "lib/distributed/group.h"
#include "lib/optim/param_groups.h"
#include "lib/train/step/step.h"

namespace bv::test {

inline const c10::Device kGpu(c10::kCUDA, 0);
inline constexpr int64_t kClasses = 7, kSize = 32;

inline int g_not_run = 0;  // cases that were skipped without a GPU

// Returns why there is no device; "" if there is one.
inline const std::string& no_gpu() {
  static const std::string& why = *new std::string([] {
    try {
      open_cuda("[gpu]");
      count_cuda("[gpu]");
      use_cuda(0);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  }());
  return why;
}

// Whether the calling test case can run.
inline bool gpu() {
  if (no_gpu().empty()) return true;
  const char* required = std::getenv("BVTRAIN_REQUIRE_CUDA");
  if (required && std::string_view(required) == "1") FAIL("not run: " << no_gpu());
  ++g_not_run;
  return false;
}

// The device for cases that are also worth running without a GPU.
inline c10::Device here() { return no_gpu().empty() ? kGpu : c10::Device(c10::kCPU); }

using Tensors = std::vector<at::Tensor>;

// Returns |got - want| / |want|, where `want` is in float64 on the CPU.
inline double distance(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor wide = got.cpu().to(at::kDouble);
  return ((wide - want).norm() / want.norm()).item<double>();
}

// A model and its keys.
struct Case {
  std::string name, keys;
};

// Small models of every kind.
inline std::vector<Case> models() {
  return {{"vit", "{variant: mu/8, depth: 2, dropout: 0.1, head_zeroinit: false}"},
          {"vit",
           "{variant: mu/8, depth: 2, pool_type: map, posemb: sincos2d, scan: true, "
           "remat_policy: nothing_saveable}"},
          {"mlp_mixer",
           "{patch_size: [8, 8], num_blocks: 2, hidden_dim: 16, tokens_mlp_dim: 12, "
           "channels_mlp_dim: 24, stoch_depth: 0.5}"},
          {"bit", "{width: 0.5, depth: [2, 1]}"},
          {"bit_paper", "{width: 0.5, depth: [2, 1], head_zeroinit: false}"},
          {"flexi_vit", "{variant: mu, patch_size: [8, 8], posemb_size: [3, 3], seqhw: 5}"},
          {"cnn", "{}"},
          {"resnet_cifar", "{width: 16}"},
          {"resnet_cifar",
           "{whitening: 8, widths: [16, 32], blocks: [0, 1], stage_convs: 2, identity_init: true}"},
          // 257 tokens: attention over few tokens is deterministic with any kernel.
          {"vit", "{variant: mu/2, depth: 1, pool_type: tok, head_zeroinit: false}"}};
}

inline Batch batch_of(int64_t n) {
  const auto generator = at::detail::createCPUGenerator(1);
  const at::Tensor image = at::randn({n, kSize, kSize, 3}, generator, at::kFloat);
  const at::Tensor labels = at::one_hot(at::arange(n) % kClasses, kClasses).to(at::kFloat);
  return {{"image", image}, {"labels", labels}};
}

struct Run {
  Run(const Case& which, Precision precision, c10::Device device, const std::string& keys,
      Group& group = Group::single(), const TaskEnv& env = {.loss_name = "softmax_xent"},
      const std::string& task_keys = "{}") {
    model = Model::Registry::make(which.name, parse_config(which.keys, "m.yaml"), Place(),
                                  ModelEnv{kClasses, kSize, kSize, 3});
    task = Task::Registry::make("classify", parse_config(task_keys, "k.yaml"), {}, env);
    const Config config = parse_config(keys, "t.yaml");
    StepConfig options = read_step(config, *model, {.total_steps = 100});
    throw_problems(config);
    step = std::make_unique<TrainStep>(*model, *task, std::move(options), 3, precision, group,
                                       parameter_init(*model, 1, std::nullopt), device);
  }
  // Returns {loss, l2_grads, l2_params, l2_updates} of each step.
  std::vector<double> train(int64_t steps, int64_t batch_size = 8) {
    std::vector<double> all;
    for (int64_t i = step->count() + 1, end = i + steps; i < end; ++i) {
      const Batch batch = batch_of(batch_size);
      if (i == bad_step) batch.at("image").fill_(std::nan(""));
      step->run(i, batch, /*measure=*/true);
      for (const auto& [name, value] : step->measurements(i))
        if (!name.starts_with("global")) all.push_back(value);
    }
    return all;
  }
  int64_t bad_step = 0;  // gets images of NaN
  std::shared_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::unique_ptr<TrainStep> step;
};

inline const std::string kAdam =
    "{optax_name: scale_by_adam, optax: {mu_dtype: bfloat16}, lr: 0.001, wd: 0.0001, "
    "grad_clip_norm: 1.0, mixup: {p: 0.2}, ema: {decay: 0.9}, schedule: {decay_type: cosine}}";

// The same with an eps that hides gradients that are zero except for rounding, such as those of
// weights before a norm. Adam would turn them into full steps, in another direction on each device.
inline const std::string kSteadyAdam = [] {
  std::string keys = kAdam;
  return keys.replace(keys.find("mu_dtype"), 0, "eps: 0.1, ");
}();

inline const char* const kOptimizers[] = {
    "optax_name: scale_by_adam",
    "optax_name: scale_by_adam, optax: {nesterov: true}",
    "optax_name: scale_by_adam, optax: {nesterov: true, mu_dtype: bfloat16}",
    "optax_name: momentum_hp",
    "optax_name: momentum_hp, optax: {dtype: float32}",
    "optax_name: momentum_hp, optax: {nesterov: true}",
    "optax_name: sgd",
    "optax_name: trace, optax: {decay: 0.9, nesterov: true}",
    "optax_name: scale_by_adafactor, optax: {clipping_threshold: 1.0}",
    "optax_name: scale_by_adafactor, optax: {momentum: null}",
    "optax_name: muon, optax: {adam_for: []}"};

inline void check_close(const std::vector<double>& a, const std::vector<double>& b, double bound) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO("value " << i);
    CHECK(a[i] == Approx(b[i]).epsilon(bound));
  }
}

inline const Case kSmallCnn = {"cnn", "{widths: [4, 8], dense: 16, dropout: 0.2}"};

// Records the work and then fails.
class FailingRecorder : public GraphRecorder {
 public:
  void run(const std::function<void()>& work) override { recorder_->run(work); }
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    return recorder_->record([&] {
      work();
      throw std::runtime_error("it cannot be recorded");
    });
  }

 private:
  const std::unique_ptr<GraphRecorder> recorder_ = cuda_graph_recorder(kGpu);
};

}  // namespace bv::test
