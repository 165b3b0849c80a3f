// TrainStep reproduces whole training runs of the reference: 20 steps of a small ViT. The
// tolerances are those in the README next to the golden arrays, about 10 times the distance to a
// float64 run.
#include <ATen/ops/one_hot.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <catch2/catch.hpp>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/train/step/step.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

struct Tolerance {
  const char* run;
  double loss, l2_grads, l2_params, l2_updates, params;
  bool skip_key_bias;  // its gradient is only rounding noise, which Adam amplifies
};
constexpr Tolerance kRuns[] = {
    {"sgd", 3e-6, 3e-6, 2e-6, 3e-6, 5e-6, false},
    {"momentum_f32_nesterov", 3e-6, 3e-6, 2e-6, 3e-6, 5e-6, false},
    {"momentum_bf16", 3e-4, 2e-3, 3e-5, 2e-3, 6e-4, false},
    {"adam_f32", 1e-4, 1e-4, 5e-6, 1e-4, 5e-5, true},
    {"adam_bf16mu", 3e-4, 2e-3, 3e-5, 2e-3, 6e-4, true},
    {"adafactor_f32_factor8_clip", 3e-6, 3e-6, 1e-5, 5e-3, 1e-5, true},
    {"adafactor_default", 3e-4, 2e-3, 3e-5, 2e-3, 6e-4, true},
    {"multi_frozen", 1e-4, 1e-4, 5e-6, 1e-4, 5e-5, true},
};

struct Trajectory {
  Trajectory(const std::string& folder, const std::string& name)
      : all(load_config(folder + "/train/train_configs.json", {})),
        config(all.section("runs").section(name)),
        data(read_npz(folder + "/train/data.npz", "train/")) {
    model = Model::Registry::make(all.get<std::string>("model_name"), all.section("model"), {},
                                  {.num_classes = 10, .height = 16, .width = 16, .channels = 3});
    const NamedTensors start = read_npz(folder + "/train/init.ckpt.npz", "params/");
    const c10::AutoGradMode no_grad(false);
    for (auto& [path, parameter] : named_parameters(*model)) parameter.copy_(start.at(path));
    task = Task::Registry::make("classify", Config(), {},
                                {.loss_name = config.get("loss", "sigmoid_xent")});
    const RunLength length{.batch_size = 8, .data_size = 160, .total_steps = 20};
    StepConfig step_config = read_step(config, *model, length);
    throw_problems(all);
    step =
        std::make_unique<TrainStep>(*model, *task, std::move(step_config), 0, Precision::float32);
  }
  Batch batch(int64_t step) const {
    const at::Tensor image = data.at("image").narrow(0, 8 * (step - 1), 8).to(at::kFloat);
    const at::Tensor label = data.at("label").narrow(0, 8 * (step - 1), 8);
    return {{"image", image / 255 * 2 - 1}, {"labels", at::one_hot(label, 10).to(at::kFloat)}};
  }
  Config all, config;
  NamedTensors data;
  std::unique_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::unique_ptr<TrainStep> step;
};

// Returns the largest difference between a parameter and golden's <prefix>/<path>.
double worst_parameter(const Trajectory& run, const NamedTensors& golden, const std::string& prefix,
                       bool skip_key_bias) {
  double worst = 0;
  for (const auto& [path, parameter] : named_parameters(*run.model)) {
    if (skip_key_bias && path.ends_with("/key/bias")) continue;
    const at::Tensor difference = (parameter.detach() - golden.at(prefix + path)).abs();
    worst = std::max(worst, difference.max().item<double>());
  }
  return worst;
}

}  // namespace

TEST_CASE("training follows the reference's trajectories") {
  for (const Tolerance& tolerance : kRuns) {
    INFO(tolerance.run);
    const auto folder = golden_folder(fmt::format("train/{}.npz", tolerance.run));
    if (folder.empty()) continue;
    Trajectory run(folder, tolerance.run);
    const NamedTensors golden = read_npz(folder + "/train/" + tolerance.run + ".npz");
    const NamedTensors start = run.step->state();
    const std::map<std::string, double> rtol = {{"training_loss", tolerance.loss},
                                                {"l2_grads", tolerance.l2_grads},
                                                {"l2_params", tolerance.l2_params},
                                                {"l2_updates", tolerance.l2_updates}};
    for (int64_t step = 1; step <= 20; ++step) {
      run.step->run(step, run.batch(step), true);
      for (const auto& [name, value] : run.step->measurements(step)) {
        INFO("step " << step << " " << name << " " << value);
        const auto found = rtol.find(name);
        const double allowed = found == rtol.end() ? 2e-6 : found->second;
        const double want = golden.at(name).const_data_ptr<float>()[step - 1];
        CHECK((want == 0 ? std::abs(value) : std::abs(value / want - 1)) <= allowed);
      }
      if (step == 2 && golden.contains("after2/head/bias")) {
        CHECK(worst_parameter(run, golden, "after2/", tolerance.skip_key_bias) <= tolerance.params);
      }
    }
    CHECK(worst_parameter(run, golden, "final/", tolerance.skip_key_bias) <= tolerance.params);
    for (const auto& entry : run.step->params().entries()) {
      if (entry.group != kFrozen) continue;
      INFO(entry.name);
      CHECK(entry.parameter.equal(start.at("params/" + entry.name)));
    }
  }
}

}  // namespace bv::test
