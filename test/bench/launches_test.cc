// The number of operators that a training step calls, each of which launches at least one kernel on
// a GPU. A small step there is launch-bound, so the numbers are fixed. If a change reduces one,
// write the new number here; a larger one needs a reason.
#include <catch2/catch.hpp>
#include <memory>

#include "lib/bench/operators.h"
#include "lib/device/plain_kernels.h"
#include "test/support/config.h"

namespace bv::test {
namespace {

struct Launches {
  std::string model;
  int64_t side;  // of the images
  double calls;
};

std::string yaml_of(const Launches& run) {
  return fmt::format(
      "num_classes: 10\ntotal_steps: 9\nlog_training_steps: 9\nprecision: float32\n{}\n"
      "loss: softmax_xent\noptax_name: scale_by_adam\nlr: 0.001\nwd: 0.0001\ngrad_clip_norm: 1.0\n"
      "input:\n  batch_size: 2\n"
      "  data: {{name: synthetic, image_size: {}, channels: 3, size: 8, encoded: none}}\n"
      "  pp: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")"
      "|keep(\"image\", \"labels\")\n",
      run.model, run.side);
}

}  // namespace

TEST_CASE("the operators that a training step calls") {
  use_plain_kernels();  // what runs on a GPU
  for (const Launches& run :
       std::vector<Launches>{{"model_name: vit\nmodel: {variant: mu/16}", 32, 95},
                             {"model_name: vit\nmodel: {variant: mu/16, scan: true}", 32, 123},
                             {"model_name: mlp_mixer\nmodel: {variant: S/16}", 32, 408},
                             {"model_name: bit\nmodel: {depth: 50}", 32, 2134},
                             {"model_name: resnet_cifar\nmodel: {norm: batch, width: 8}", 32, 117},
                             {"model_name: cnn\nmodel: {widths: [8, 16]}", 32, 50}}) {
    INFO(run.model);
    const auto recipe =
        std::make_unique<Recipe>(parse_config(yaml_of(run), "t.yaml"), /*synthetic=*/false);
    double calls = 0, flops = 0;
    for (const OperatorSum& sum : roofline(operators_of_step(*recipe), 1, 1)) {
      calls += sum.calls;
      flops += sum.flops;
    }
    CHECK(calls == run.calls);
    // The images need no gradient, which saves a third of the first layer.
    const double whole = 2 * recipe->step->example_flops();
    CHECK(flops > 0.6 * whole);
    CHECK(flops < 1.01 * whole);
  }
}

}  // namespace bv::test
