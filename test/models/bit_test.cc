// bit and bit_paper: big_vision's numbers, padding, sizes, names, keys.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "lib/model/layers/std_conv.h"
#include "lib/model/resnet.h"
#include "test/models/golden_case.h"
#include "test/support/error.h"
#include "test/support/model.h"

namespace bv::test {
namespace {

int64_t bit_parameters(const std::string& name, const std::string& yaml, int64_t classes = 1000) {
  const MetaDevice guard;
  int64_t count = 0;
  for (const auto& [path, value] :
       named_parameters(*make_model(name, yaml, {classes, 224, 224, 3}))) {
    count += value.numel();
  }
  return count;
}

TEST_CASE("bit, bit_paper: logits, activations, loss and gradients equal the reference's") {
  check_golden_case("bit");
  check_golden_case("bit_paper");
}

TEST_CASE("bit, bit_paper: depths and widths have the published sizes") {
  // timm's resnetv2_50x1_bit and its siblings with 1000 classes
  CHECK(bit_parameters("bit_paper", "{depth: 50, width: 1}") == 25549352);
  CHECK(bit_parameters("bit_paper", "{depth: 50, width: 3}") == 217319080);
  CHECK(bit_parameters("bit_paper", "{depth: 101, width: 1}") == 44541480);
  CHECK(bit_parameters("bit_paper", "{depth: 101, width: 3}") == 387934888);
  CHECK(bit_parameters("bit_paper", "{depth: 152, width: 2}") == 236335208);
  CHECK(bit_parameters("bit_paper", "{depth: 152, width: 4}") == 936533224);
  // torchvision's resnet50, 101, 152: a group norm has as many parameters as a batch norm
  CHECK(bit_parameters("bit", "{}") == 25557032);
  CHECK(bit_parameters("bit", "depth: 101") == 44549160);
  CHECK(bit_parameters("bit", "depth: 152") == 60192808);
  CHECK(bit_parameters("bit", "depth: [2, 2, 2, 2]") == bit_parameters("bit", "depth: 26"));
}

std::map<std::string, std::string> shapes(const Model& model) {
  std::map<std::string, std::string> all;
  for (const auto& [name, parameter] : named_parameters(model)) {
    all[name] = fmt::format("{}", fmt::join(parameter.sizes(), "x"));
  }
  return all;
}

TEST_CASE("bit, bit_paper: a shortcut is projected where its shape changes") {
  const auto bit = shapes(*make_model("bit", "{width: 0.5, depth: [1, 11]}"));
  CHECK(bit.at("block1/unit1/conv_proj/kernel") == "1x1x32x128");
  CHECK(bit.at("block2/unit1/conv_proj/kernel") == "1x1x128x256");
  CHECK(bit.at("block2/unit11/gn3/scale") == "256");
  CHECK(bit.count("block2/unit2/conv_proj/kernel") == 0);
  const auto paper = shapes(*make_model("bit_paper", "{width: 0.5, depth: [1, 11]}"));
  CHECK(paper.at("block2/unit11/gn3/scale") == "1x1x1x64");
  CHECK(paper.at("root_block/conv_root/kernel") == "7x7x3x32");
  CHECK(paper.at("norm-pre-head/bias") == "1x1x1x256");
  CHECK(paper.count("block1/unit01/gn_proj/scale") == 0);
}

// TensorFlow's SAME padding, with explicit borders.
TEST_CASE("std conv and max pool: SAME borders for even and odd sizes") {
  const at::Generator draw = at::detail::createCPUGenerator(1);
  for (const int64_t size : {1, 2, 5, 8, 9}) {
    for (const int64_t k : {1, 3, 7}) {
      for (const int64_t stride : {1, 2}) {
        INFO(size << " pixels, kernel " << k << ", stride " << stride);
        const int64_t other = size + 1;
        const at::Tensor x = at::randn({2, 4, size, other}, draw, at::kFloat);
        const StdConv conv = {at::randn({k, k, 4, 6}, draw, at::kFloat), stride};
        const auto border = [&](int64_t extent) {
          return std::max<int64_t>(((extent + stride - 1) / stride - 1) * stride + k - extent, 0);
        };
        const int64_t rows = border(size), columns = border(other);
        const at::Tensor padded = at::constant_pad_nd(
            x, {columns / 2, columns - columns / 2, rows / 2, rows - rows / 2}, 0);
        const at::Tensor w = conv.kernel.permute({3, 2, 0, 1}).contiguous();
        const at::Tensor mean = w.mean({1, 2, 3}, true), std = w.std({1, 2, 3}, false, true);
        const at::Tensor expected = at::conv2d(padded, (w - mean) / (std + 1e-5), {}, stride);
        Pass pass;
        double macs = 0;
        pass.macs = &macs;
        const at::Tensor y = conv(x, pass);
        REQUIRE(y.size(2) == (size + stride - 1) / stride);
        CHECK(at::allclose(y, expected, 1e-4, 1e-5));
        CHECK(macs == static_cast<double>(y.numel() * k * k * 4));
        if (k != 3 || stride != 2) continue;
        const at::Tensor bordered = at::constant_pad_nd(
            x, {columns / 2, columns - columns / 2, rows / 2, rows - rows / 2}, -INFINITY);
        CHECK(max_pool_same(x).equal(at::max_pool2d(bordered, 3, 2)));
      }
    }
  }
}

TEST_CASE("standardised kernels have mean 0 and deviation 1 per output channel") {
  const at::Tensor kernel =
      at::randn({3, 3, 8, 5}, at::detail::createCPUGenerator(2), at::kFloat) * 3 + 2;
  for (const auto rule : {StdConv::Rule::bit, StdConv::Rule::bit_paper}) {
    const at::Tensor w = standardize(kernel, rule).flatten(0, 2);
    CHECK(w.mean(0).abs().max().item<double>() < 1e-6);
    CHECK((w.std(0, false) - 1).abs().max().item<double>() < 1e-4);
  }
  // The rules differ if the deviation is small: the first adds 1e-5 to it, the second adds 1e-10 to
  // its square.
  const at::Tensor flat = kernel * 1e-5 / kernel.flatten(0, 2).std(0, false);
  const auto deviation = [&](StdConv::Rule rule) {
    return standardize(flat, rule).flatten(0, 2).std(0, false).mean().item<double>();
  };
  CHECK(deviation(StdConv::Rule::bit) == Approx(0.5).epsilon(1e-3));
  CHECK(deviation(StdConv::Rule::bit_paper) == Approx(std::sqrt(0.5)).epsilon(1e-3));
}

TEST_CASE("bit, bit_paper: bad keys are named with their place") {
  const auto error = [](const std::string& name, const std::string& yaml) -> std::string {
    return error_of([&] { make_model(name, yaml); });
  };
  for (const std::string name : {"bit", "bit_paper"}) {
    CHECK(error(name, "depth: 34") ==
          "m.yaml:1:8: error: depth: expected one of 26, 50, 101, 152, 200 or a list of units per "
          "stage, got 34");
    CHECK(error(name, "depth: []") ==
          "m.yaml:1:8: error: depth: must be a list of positive numbers, the units of each stage");
    CHECK(error(name, "depth: [2, 0]") ==
          "m.yaml:1:8: error: depth: must be a list of positive numbers, the units of each stage");
    CHECK(error(name, "depth: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]") ==
          "m.yaml:1:8: error: depth: 13 stages, at most 12");
    CHECK(error(name, "width: 0") ==
          "m.yaml:1:8: error: width: must be above 0, at most 64, got 0");
    CHECK(error(name, "width: 0.7") ==
          "m.yaml:1:8: error: width: 44 channels (64 * width) are not divisible by the norms' 32 "
          "groups");
  }
  CHECK(error("bit", "head_zeroinit: false").find("unknown key 'head_zeroinit'") !=
        std::string::npos);
}

}  // namespace
}  // namespace bv::test
