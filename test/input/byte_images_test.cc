// Images that stay uint8 until the step: the loader skips their normalization, and the step does
// it.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "lib/input/image/device_images.h"
#include "lib/input/training_data.h"
#include "test/input/fake_source.h"

namespace bv::test {
namespace {

Pipeline made(const std::string& text) { return Pipeline(text, Place{"t.yaml", 3, 9}); }

at::Tensor byte_noise(std::vector<int64_t> shape, at::ScalarType dtype, uint64_t index = 0) {
  Rng rng(11, Purpose::synthetic, index);
  at::Tensor out = at::empty(shape, at::kFloat);
  float* values = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < out.numel(); ++i)
    values[i] = std::floor(256 * static_cast<float>(rng.uniform()));
  return out.to(dtype);
}

Example image_example(at::ScalarType dtype) {
  return {{"image", byte_noise({9, 12, 3}, dtype)}, {"label", at::scalar_tensor(3, at::kLong)}};
}

Example applied(const Pipeline& pp, Example of) {
  Rng rng(7, Purpose::augment, 1);
  pp.apply(of, rng);
  return of;
}

}  // namespace

TEST_CASE("the normalization of bytes is left out where no later op uses the image") {
  const std::string after = "|onehot(10, key='label', key_result='labels')|keep('image', 'labels')";
  for (const auto& [text, left] : std::vector<std::pair<std::string, bool>>{
           {"value_range(-1, 1)", true},
           {"flip_lr|value_range(0, 1, 0, 200, clip_values=True)" + after, true},
           {"random_crop(8)|vgg_value_range" + after, true},
           {"resize(7)|clip_value_range|drop('label')", true},
           {"value_range(in_min=[1, 2, 3], in_max=[101, 120, 203])", true},
           {"value_range(0, 1)|vgg_value_range", true},
           {"value_range|flip_lr", false},
           {"value_range|copy('image', 'again')", false},
           {"value_range(inkey='image', outkey='other')", false},
           {"value_range|drop('image')", false},
           {"resize(5)", false},
           {"", false}}) {
    INFO(text);
    const Pipeline whole = made(text);
    Pipeline shorter = made(text);
    const std::optional<Normalization> rest = shorter.leave_normalization();
    CHECK(rest.has_value() == left);
    for (const at::ScalarType dtype : {at::kByte, at::kFloat}) {
      Example got = applied(shorter, image_example(dtype));
      const Example want = applied(whole, image_example(dtype));
      // The second of two normalizations never gets bytes.
      const bool bytes = left && dtype == at::kByte && text != "value_range(0, 1)|vgg_value_range";
      if (rest) CHECK((got.at("image").scalar_type() == at::kByte) == bytes);
      if (bytes) got.at("image") = normalize(got.at("image"), *rest);
      REQUIRE(got.size() == want.size());
      for (const auto& [key, value] : want) CHECK(got.at(key).equal(value));
      if (!shorter.has_batched()) continue;
      Example batch;
      for (const auto& [key, value] : image_example(dtype)) batch[key] = at::stack({value, value});
      std::vector<Rng> rngs(2, Rng(7, Purpose::augment, 1));
      shorter.apply_batch(batch, rngs);
      if (rest) CHECK((batch.at("image").scalar_type() == at::kByte) == bytes);
      if (bytes) batch.at("image") = normalize(batch.at("image"), *rest);
      for (const auto& [key, value] : want) CHECK(batch.at(key)[1].equal(value));
    }
  }
}

TEST_CASE("what a device cannot normalize in one pass stays in pp") {
  Pipeline four = made("value_range(in_min=[1, 2, 3, 4], in_max=[9, 9, 9, 9])");
  Pipeline five = made("value_range(in_min=[1, 2, 3, 4, 5], in_max=[9, 9, 9, 9, 9])");
  CHECK(four.leave_normalization());
  CHECK_FALSE(five.leave_normalization());
}

TEST_CASE("training data leaves the normalization to the step, a mixture does not") {
  const auto source = std::make_shared<FakeSource>(4);
  const auto pp = std::make_shared<Pipeline>(made("value_range(-1, 1)"));
  TrainingData alone(dataset(source), pp);
  REQUIRE(alone.leave_normalization());
  CHECK(alone.compute({0, 1}, 1, 0).at("image").scalar_type() == at::kByte);
  const auto compute = [&](const Pipeline& all) {
    Example read = dataset(source)->read(1);
    return applied(all, read);
  };
  CHECK(compute(*pp).at("image").scalar_type() == at::kFloat);  // others keep their pipeline
  TrainingData both({{"a", dataset(source), pp, 1}, {"b", dataset(source), pp, 1}});
  CHECK_FALSE(both.leave_normalization());
  CHECK(both.compute({0, 1}, 1, 0).at("image").scalar_type() == at::kFloat);
}

TEST_CASE("operators normalize and mix images as the loader and mixup do") {
  for (const size_t channels : {1, 3, 5}) {
    const auto c = static_cast<int64_t>(channels);
    Normalization how{
        .low = std::vector<float>(channels, 3), .range = {}, .scale = 2, .offset = -1};
    for (size_t i = 0; i < channels; ++i) how.range.push_back(200 + static_cast<float>(i));
    how.clip = channels == 3;
    std::tie(how.clip_min, how.clip_max) = std::pair(-0.9F, 0.8F);
    const at::Tensor bytes = byte_noise({4, 5, 6, c}, at::kByte);
    const at::Tensor before = byte_noise({1, 5, 6, c}, at::kByte, 1);
    const at::Tensor y = normalize(bytes, how), first = normalize(before, how);
    const auto distance = [](const at::Tensor& a, const at::Tensor& b) {
      return (a - b).abs().max().item<float>();
    };
    CHECK(device_images(bytes, how).equal(y));
    if (channels <= ImagePass::kChannels) {
      ImagePass pass = image_pass(bytes, how);
      std::tie(pass.keep, pass.other) = std::pair(0.75F, 0.25F);
      const auto* in = bytes.const_data_ptr<uint8_t>();
      const at::Tensor second = (0.75 * y[1] + 0.25 * y[0]).contiguous();
      for (int64_t at = 0; at < pass.width; ++at)
        CHECK(pass.value(in + pass.width, in, at) ==
              Approx(second.const_data_ptr<float>()[at]).margin(1e-6));
    }
    CHECK(distance(plain_device_images(bytes, how, {}, {}), y) < 1e-6);
    const at::Tensor mixed = 0.75 * y + 0.25 * at::cat({first, y.narrow(0, 0, 3)});
    CHECK(distance(device_images(bytes, how, at::tensor({0.75F, 0.25F}), before), mixed) < 1e-6);
  }
}

}  // namespace bv::test
