// The resize kernels are compared with the formulas of TensorFlow's resize methods (big_vision
// pp/ops_image.py `get_resize`), computed plainly in double precision. Also what must hold for all
// of them. Golden images: pp_golden_test.cc.
#include "lib/input/image/resizer.h"

#include <numbers>

#include "test/input/op_support.h"

namespace bv::test {
namespace {

double kernel(const std::string& method, double x) {
  x = std::abs(x);
  const double pi = std::numbers::pi;
  const auto sinc = [&](double z) { return z == 0 ? 1 : std::sin(pi * z) / (pi * z); };
  if (method == "bilinear") return std::max(0.0, 1 - x);
  if (method == "lanczos3") return x < 3 ? sinc(x) * sinc(x / 3) : 0;
  if (method == "lanczos5") return x < 5 ? sinc(x) * sinc(x / 5) : 0;
  if (method == "gaussian") return x < 1.5 ? std::exp(-2 * x * x) : 0;  // sigma 1/2
  if (method == "bicubic") {
    return x < 1   ? 1.5 * x * x * x - 2.5 * x * x + 1
           : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2
                   : 0;
  }
  // mitchellcubic: B = C = 1/3
  return x < 1   ? (7 * x * x * x - 12 * x * x + 16.0 / 3) / 6
         : x < 2 ? (-7.0 / 3 * x * x * x + 12 * x * x - 20 * x + 32.0 / 3) / 6
                 : 0;
}

// Returns the weights (out, in) along one axis.
at::Tensor axis_weights(const std::string& method, bool antialias, int64_t in, int64_t out) {
  at::Tensor weights = at::zeros({out, in}, at::kDouble);
  auto weight = weights.accessor<double, 2>();
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  for (int64_t j = 0; j < out; ++j) {
    const double c = (static_cast<double>(j) + 0.5) * scale;
    if (method == "nearest") {
      weight[j][std::min(static_cast<int64_t>(c), in - 1)] = 1;
      continue;
    }
    if (method == "bilinear" && !antialias) {
      const auto floor = static_cast<int64_t>(std::floor(c - 0.5));
      const double part = c - 0.5 - static_cast<double>(floor);
      weight[j][std::clamp<int64_t>(floor, 0, in - 1)] += 1 - part;
      weight[j][std::clamp<int64_t>(floor + 1, 0, in - 1)] += part;
      continue;
    }
    const double stretch = antialias ? std::max(scale, 1.0) : 1.0;
    for (int64_t i = 0; i < in; ++i) {
      const auto left = static_cast<double>(i);
      if (method == "area") {
        const double begin = static_cast<double>(j) * scale;
        weight[j][i] = std::max(0.0, std::min(left + 1, begin + scale) - std::max(left, begin));
      } else {
        weight[j][i] = kernel(method, (left + 0.5 - c) / stretch);
      }
    }
    weights[j] /= weights[j].sum();
  }
  return weights;
}

// Resizes (h, w, c) float32; the result is double.
at::Tensor plain_resize(const at::Tensor& image, const std::string& method, bool antialias,
                        Size to) {
  const at::Tensor down = axis_weights(method, antialias, image.size(0), to.height);
  const at::Tensor across = axis_weights(method, antialias, image.size(1), to.width);
  const auto in = image.accessor<float, 3>();
  const auto down_weight = down.accessor<double, 2>(), across_weight = across.accessor<double, 2>();
  at::Tensor out = at::zeros({to.height, to.width, image.size(2)}, at::kDouble);
  auto value = out.accessor<double, 3>();
  for (int64_t y = 0; y < to.height; ++y) {
    for (int64_t x = 0; x < to.width; ++x) {
      for (int64_t h = 0; h < image.size(0); ++h) {
        for (int64_t w = 0; w < image.size(1); ++w) {
          const double weight = down_weight[y][h] * across_weight[x][w];
          for (int64_t c = 0; c < image.size(2); ++c) value[y][x][c] += weight * in[h][w][c];
        }
      }
    }
  }
  return out;
}

at::Tensor resize(const at::Tensor& image, const std::string& method, bool antialias, Size to) {
  return run_pp(fmt::format("resize(size=[{}, {}], method='{}', antialias={})", to.height, to.width,
                            method, antialias ? "True" : "False"),
                {{"image", image}})
      .at("image");
}

const std::vector<Size> kSizes = {{5, 7}, {16, 20}, {17, 23}, {40, 31}, {1, 1}};

}  // namespace

TEST_CASE("resize of float images follows the formulas") {
  const at::Tensor image = noise({17, 23, 3}, at::kFloat);
  for (const std::string& method : resize_method_names()) {
    for (const bool antialias : {false, true}) {
      for (const Size to : kSizes) {
        CAPTURE(method, antialias, to.height, to.width);
        const at::Tensor ours = resize(image, method, antialias, to);
        CHECK(ours.scalar_type() == at::kFloat);
        // TensorFlow rounds the offset of bicubic to 1/1024, so that weights are off by up to
        // 1/2048 of the slope. The gaussian ends with a step of 0.011, and a tap may be on either
        // side of it.
        const double tolerance = method == "bicubic" && !antialias ? 1e-2
                                 : method == "gaussian"            ? 0.05
                                                                   : 2e-5;
        const double apart = (ours.to(at::kDouble) - plain_resize(image, method, antialias, to))
                                 .abs()
                                 .max()
                                 .item<double>();
        CHECK(apart < tolerance);
      }
    }
  }
}

TEST_CASE("resize of uint8 truncates what float gives") {
  const at::Tensor image = noise({17, 23, 3}, at::kByte);
  for (const std::string& method : resize_method_names()) {
    for (const bool antialias : {false, true}) {
      for (const Size to : kSizes) {
        CAPTURE(method, antialias, to.height, to.width);
        const at::Tensor exact = resize(image.to(at::kFloat), method, antialias, to);
        CHECK(at::equal(resize(image, method, antialias, to), exact.clamp(0, 255).to(at::kByte)));
      }
    }
  }
}

TEST_CASE("resize treats all channels alike, whatever their number") {
  for (const auto dtype : {at::kByte, at::kFloat}) {
    const at::Tensor image = noise({17, 23, 6}, dtype);
    for (const std::string& method : resize_method_names()) {
      for (const bool antialias : {false, true}) {
        CAPTURE(method, antialias);
        const at::Tensor all = resize(image, method, antialias, {9, 30});
        for (const int64_t channels : {1, 2, 3, 4, 5}) {
          CAPTURE(channels);
          const at::Tensor some = resize(image.narrow(2, 1, channels), method, antialias, {9, 30});
          CHECK(same_bits(some, all.narrow(2, 1, channels)));
        }
      }
    }
  }
}

TEST_CASE("resize to the same size changes nothing") {
  const at::Tensor image = noise({17, 23, 3}, at::kByte);
  for (const std::string method : {"nearest", "bilinear", "bicubic", "area"}) {
    CHECK(at::equal(resize(image, method, false, {17, 23}), image));
  }
}

TEST_CASE("a flat image stays flat") {
  // At these values truncation would show the smallest error. Kernels that round their weights
  // after dividing by the sum may be too small by the last bit, as in TensorFlow.
  for (const int value : {0, 1, 128, 255}) {
    const at::Tensor image = at::full({31, 45, 3}, value, at::kByte);
    for (const std::string method : {"nearest", "bilinear"}) {
      CHECK(resize(image, method, false, {20, 33}).eq(value).all().item<bool>());
    }
  }
}

TEST_CASE("resize_small and resize_long round the other side half to even") {
  const auto size = [](const std::string& pp, int64_t height, int64_t width) {
    const at::Tensor out =
        run_pp(pp, {{"image", at::zeros({height, width, 1}, at::kByte)}}).at("image");
    return std::pair(out.size(0), out.size(1));
  };
  CHECK(size("resize_small(2)", 4, 9) == std::pair<int64_t, int64_t>(2, 4));   // 4.5 -> 4
  CHECK(size("resize_small(2)", 11, 4) == std::pair<int64_t, int64_t>(6, 2));  // 5.5 -> 6
  CHECK(size("resize_small(64)", 221, 320) == std::pair<int64_t, int64_t>(64, 93));
  CHECK(size("resize_long(64)", 221, 320) == std::pair<int64_t, int64_t>(44, 64));
  CHECK(size("resize_small(10)", 5, 8) == std::pair<int64_t, int64_t>(10, 16));
}

}  // namespace bv::test
