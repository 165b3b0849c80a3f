// A step's FLOPs and bytes: extrapolation from two batches to a third, and the minimum time.
#include "lib/bench/operators.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lib/config/load_config.h"
#include "lib/device/plain_kernels.h"
#include "test/support/binary.h"
#include "test/support/error.h"

namespace bv::test {

TEST_CASE("operators: a larger batch has the same calls, with more for each example") {
  // A product whose weights take 100 bytes and each example 10; an update that takes 50 in all.
  const std::vector<OperatorCall> two = {{"aten::mm", 8, 120}, {"optimizer", 0, 50}};
  const std::vector<OperatorCall> four = {{"aten::mm", 16, 140}, {"optimizer", 0, 50}};
  const std::vector<OperatorCall> all = scale_to_batch(two, 2, four, 4, 256);
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "aten::mm");
  CHECK(all[0].flops == 4 * 256);
  CHECK(all[0].bytes == 100 + 10 * 256);
  CHECK(all[1].bytes == 50);
  CHECK(
      error_of([&] {
        scale_to_batch(two, 2, {{"aten::mm", 16, 140}}, 4, 256);
      }) ==
      "bvtrain bench operators: error: steps of 2 and of 4 examples differ: call 2 is optimizer in "
      "one and the end in the other; with at most 4 examples, one step is enough: --set "
      "input.batch_size=4");
}

TEST_CASE("operators: the calls of the update are not compared and do not grow with the batch") {
  const auto updated = [](const char* name, double bytes) {
    return OperatorCall{.name = name, .bytes = bytes, .update = true};
  };
  const std::vector<OperatorCall> all = scale_to_batch(
      {updated("aten::mul", 7), {"aten::mm", 8, 120}}, 2,
      {{"aten::mm", 16, 140}, updated("aten::div_", 3), updated("aten::mul", 7)}, 4, 256);
  REQUIRE(all.size() == 3);
  CHECK(all[0].bytes == 100 + 10 * 256);
  CHECK(all[1].name == "aten::div_");
  CHECK(all[1].bytes == 3);
  CHECK(all[2].bytes == 7);
}

TEST_CASE("operators: a call is listed if it is listed for one of two batches") {
  const auto fill = [](double bytes, bool listed) {
    return OperatorCall{.name = "aten::fill_", .bytes = bytes, .listed = listed};
  };
  const std::vector<OperatorSum> sums =
      roofline(scale_to_batch({fill(4, false), fill(20, false)}, 2,
                              {fill(4, false), fill(40, true)}, 4, 256),
               1, 1);
  REQUIRE(sums.size() == 1);
  CHECK(sums[0].calls == 1);
  CHECK(sums[0].bytes == 10 * 256);
}

// The gradient of a pool's input is filled with zeros first, on a CPU by fill_() if it is large.
// Several threads call the operators of Muon and Adafactor, in another order each time.
TEST_CASE("operators: the step of each config can be extrapolated") {
  use_plain_kernels();
  const std::vector<Override> few_patches = {{"model.whitening", "40", "test"}};  // fast
  std::vector<Override> narrow = few_patches;
  narrow.push_back({"model.widths", "[16, 32, 32]", "test"});
  struct Step {
    std::string config;
    std::vector<Override> more = {};
  };
  for (const Step& each :
       {Step{"cifar10_resnet", few_patches}, Step{"cifar10_resnet", narrow}, Step{"digits_cnn"},
        Step{"digits_vit"}, Step{"digits_vit", {{"optax_name", "muon", "test"}}},
        Step{"digits_vit",
             {{"optax_name", "big_vision.scale_by_adafactor", "test"},
              {"optax.clipping_threshold", "1.0", "test"}}},
        Step{"fashion_mnist_cnn"}, Step{"fashion_mnist_small"}, Step{"mnist_cnn"}}) {
    INFO(each.config << ", changes: " << each.more.size());
    const auto recipe_of = [&](int64_t batch) {
      std::vector<Override> overrides = each.more;
      overrides.push_back({"precision", "bf16", "test"});
      overrides.push_back({"input.batch_size", std::to_string(batch), "test"});
      const std::string file = source_file("configs/" + each.config + ".yaml");
      return std::make_unique<Recipe>(load_config(file, overrides), /*synthetic=*/true);
    };
    CHECK(error_of([&] { operators_of_batch(recipe_of, /*granule=*/1, /*batch=*/8); }).empty());
  }
}

}  // namespace bv::test
