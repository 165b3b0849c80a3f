// The benchmarks of a model whose steps differ measure its largest step, whatever the seed draws.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/bench/memory.h"
#include "lib/bench/operators.h"
#include "lib/device/operator_record.h"
#include "lib/device/plain_kernels.h"
#include "test/support/config.h"

namespace bv::test {
namespace {

// Steps 1 and 2 draw 2 patches per side with seed 3, and 16 in at least one of them with seed 1.
std::unique_ptr<Recipe> flexi_recipe(int seed, const std::string& seqhw, int64_t batch) {
  const std::string yaml = fmt::format(
      "seed: {}\nnum_classes: 10\ntotal_steps: 9\nlog_training_steps: 9\nprecision: float32\n"
      "model_name: flexi_vit\nmodel: {{variant: mu/8, flexi: {{seqhw: {{v: {}}}}}}}\n"
      "loss: softmax_xent\noptax_name: scale_by_adam\nlr: 0.001\nwd: 0.0001\n"
      "input:\n  batch_size: {}\n"
      "  data: {{name: synthetic, image_size: 32, channels: 3, size: 8, encoded: none}}\n"
      "  pp: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")"
      "|keep(\"image\", \"labels\")\n",
      seed, seqhw, batch);
  return std::make_unique<Recipe>(parse_config(yaml, "t.yaml"), /*synthetic=*/false);
}

double sum_of_flops(const std::vector<OperatorCall>& calls) {
  double flops = 0;
  for (const OperatorCall& call : calls) flops += call.flops;
  return flops;
}

}  // namespace

TEST_CASE("bench memory runs the largest step of a model, whatever the seed draws") {
  use_plain_kernels();  // so that the products are recorded
  const auto flops_of = [](int seed, const std::string& seqhw) {
    const OperatorRecorder recorder(c10::kCPU);
    measure_memory([&](int64_t batch) { return flexi_recipe(seed, seqhw, batch); }, c10::kCPU,
                   /*granule=*/1, /*most=*/2);
    return sum_of_flops(recorder.calls());
  };
  const double largest = flops_of(1, "[16]");
  CHECK(largest > 0);
  CHECK(flops_of(1, "[2, 16]") == largest);
  CHECK(flops_of(3, "[2, 16]") == largest);
}

TEST_CASE("bench operators lists the largest step of a model, whatever the seed draws") {
  use_plain_kernels();
  const auto flops_of = [](int seed, const std::string& seqhw) {
    return sum_of_flops(operators_of_step(*flexi_recipe(seed, seqhw, /*batch=*/2)));
  };
  const double largest = flops_of(1, "[16]");
  CHECK(largest > 0);
  CHECK(flops_of(1, "[2, 16]") == largest);
  CHECK(flops_of(3, "[2, 16]") == largest);
}

}  // namespace bv::test
