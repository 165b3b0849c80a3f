// random_affine: the effect of its maps on an image.
#include "lib/input/image/affine.h"

#include <numbers>

#include "test/input/op_support.h"

namespace bv::test {
namespace {

at::Tensor moved(const at::Tensor& image, const AffineMap& map, float fill = 0) {
  at::Tensor out = at::empty_like(image);
  if (image.scalar_type() == at::kByte) {
    apply_affine(image.const_data_ptr<uint8_t>(), image.size(0), image.size(1), image.size(2), map,
                 fill, out.mutable_data_ptr<uint8_t>());
  } else {
    apply_affine(image.const_data_ptr<float>(), image.size(0), image.size(1), image.size(2), map,
                 fill, out.mutable_data_ptr<float>());
  }
  return out;
}

// The definition in the header, computed in double with a condition for each tap.
double plain_pixel(const at::Tensor& image, const AffineMap& map, double fill, int64_t x, int64_t y,
                   int64_t c) {
  const auto at = [&](int64_t iy, int64_t ix) {
    const bool inside = iy >= 0 && ix >= 0 && iy < image.size(0) && ix < image.size(1);
    return inside ? image[iy][ix][c].item<double>() : fill;
  };
  const double px = map.xx * static_cast<double>(x) + map.xy * static_cast<double>(y) + map.x0;
  const double py = map.yx * static_cast<double>(x) + map.yy * static_cast<double>(y) + map.y0;
  const auto ix = static_cast<int64_t>(std::floor(px)), iy = static_cast<int64_t>(std::floor(py));
  const double fx = px - std::floor(px), fy = py - std::floor(py);
  const double upper = at(iy, ix) * (1 - fx) + at(iy, ix + 1) * fx;
  const double lower = at(iy + 1, ix) * (1 - fx) + at(iy + 1, ix + 1) * fx;
  return upper * (1 - fy) + lower * fy;
}

// An image with one soft spot in the centre.
at::Tensor spot(int64_t side) {
  at::Tensor image = at::zeros({side, side, 1}, at::kFloat);
  const double middle = static_cast<double>(side - 1) / 2;
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) {
      image[y][x][0] = 200 * std::exp(-(std::pow(static_cast<double>(y) - middle, 2) +
                                        std::pow(static_cast<double>(x) - middle, 2)) /
                                      8);
    }
  }
  return image;
}

// Returns the centre of mass, relative to the image centre.
std::pair<double, double> centre(const at::Tensor& image) {
  double sum = 0, sum_y = 0, sum_x = 0;
  const double middle = static_cast<double>(image.size(0) - 1) / 2;
  const at::Tensor values = image.to(at::kDouble).contiguous();
  const double* value = values.const_data_ptr<double>();
  for (int64_t y = 0; y < image.size(0); ++y) {
    for (int64_t x = 0; x < image.size(1); ++x, ++value) {
      sum += *value;
      sum_y += *value * (static_cast<double>(y) - middle);
      sum_x += *value * (static_cast<double>(x) - middle);
    }
  }
  return {sum_y / sum, sum_x / sum};
}

}  // namespace

TEST_CASE("the affine kernel follows its definition") {
  const at::Tensor image = noise({9, 12, 2}, at::kFloat);
  const AffineMap maps[] = {
      {0.9, 0.3, -1.5, -0.2, 1.1, 2.25}, {-1, 0, 11, 0, -1, 8}, {3, 0, -9, 0, 3, -20}};
  for (const AffineMap& map : maps) {
    const at::Tensor out = moved(image, map, 5);
    for (int64_t y = 0; y < 9; ++y) {
      for (int64_t x = 0; x < 12; ++x) {
        for (int64_t c = 0; c < 2; ++c) {
          CAPTURE(x, y, c);
          CHECK(out[y][x][c].item<double>() ==
                Approx(plain_pixel(image, map, 5, x, y, c)).margin(1e-4));
        }
      }
    }
  }
}

TEST_CASE("shifts by whole pixels move pixels exactly") {
  for (const auto dtype : {at::kByte, at::kFloat}) {
    const at::Tensor image = noise({10, 12, 3}, dtype);
    const at::Tensor out = moved(image, {.x0 = -3, .y0 = 2}, 9);  // right by 3, up by 2
    CHECK(at::equal(out.narrow(0, 0, 8).narrow(1, 3, 9), image.narrow(0, 2, 8).narrow(1, 0, 9)));
    CHECK(out.narrow(1, 0, 3).eq(9).all().item<bool>());
    CHECK(out.narrow(0, 8, 2).eq(9).all().item<bool>());
  }
}

TEST_CASE("random_affine refuses images whose positions do not fit into 32 bits") {
  CHECK(affine_fits(16384, 16384, 7));
  CHECK_FALSE(affine_fits(16384, 16384, 8));
  CHECK_FALSE(affine_fits(int64_t{1} << 30, 1, int64_t{1} << 40));
  const at::Tensor image = at::empty({1, int64_t{1} << 29, 1}, at::kByte);  // never touched
  CHECK(run_error(Exit::data, "random_affine", {{"image", image}}) ==
        "random_affine: an image of 1x536870912 with 1 channels is too large");
}

TEST_CASE("random_affine without arguments is the identity") {
  for (const auto dtype : {at::kByte, at::kFloat}) {
    for (const int64_t channels : {1, 3}) {
      const at::Tensor image = noise({28, 27, channels}, dtype);
      for (uint64_t i = 0; i < 5; ++i) {
        CHECK(at::equal(run_pp("random_affine", {{"image", image}}, i).at("image"), image));
        CHECK(at::equal(
            run_pp("random_affine(shift=0, rotate=0, scale=[1, 1])", {{"image", image}}, i)
                .at("image"),
            image));
      }
    }
  }
}

TEST_CASE("random_affine shifts uniformly, by pixels or by parts of the sides") {
  const at::Tensor image = spot(41);
  for (const std::string pp :
       {"random_affine(shift=6)", "random_affine(shift=0.1463414634146341)"}) {  // 6 / 41
    constexpr int kDraws = 400;
    double sum_y = 0, sum_x = 0, most = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const auto [y, x] = centre(run_pp(pp, {{"image", image}}, i).at("image"));
      sum_y += y;
      sum_x += x;
      squares += y * y + x * x;
      most = std::max({most, std::abs(y), std::abs(x)});
    }
    CAPTURE(pp, sum_y, sum_x, most, squares);
    // Uniform in +-6 has variance 12, so the standard deviation of the mean is 0.17.
    CHECK(std::abs(sum_y / kDraws) < 0.87);
    CHECK(std::abs(sum_x / kDraws) < 0.87);
    CHECK(squares / (2 * kDraws) == Approx(12).epsilon(0.2));
    CHECK(most < 6.01);
    CHECK(most > 5.8);
  }
}

TEST_CASE("random_affine keeps values between the smallest and the largest") {
  const at::Tensor image = noise({28, 28, 1}, at::kFloat) + 10;  // 8 .. 12
  for (uint64_t i = 0; i < 50; ++i) {
    const at::Tensor out =
        run_pp("random_affine(shift=3, rotate=30, scale=[0.7, 1.4], fill=9)", {{"image", image}}, i)
            .at("image");
    CHECK(out.min().item<double>() > 7.9999);
    CHECK(out.max().item<double>() < 12.0001);
  }
  const at::Tensor white = at::full({28, 28, 3}, 255, at::kByte);
  for (uint64_t i = 0; i < 50; ++i) {
    const at::Tensor out = run_pp("random_affine(shift=3, rotate=30, scale=[0.7, 1.4], fill=255)",
                                  {{"image", white}}, i)
                               .at("image");
    CHECK(out.eq(255).all().item<bool>());
  }
}

TEST_CASE("random_affine rotates and scales about the middle") {
  // The size of a round spot shows the scale, the axis of a bar the angle.
  const at::Tensor round = spot(41);
  at::Tensor bar = at::zeros({41, 41, 1}, at::kFloat);
  bar.narrow(0, 19, 3).narrow(1, 12, 17).fill_(1);
  double least = 1e9, most = 0, steepest = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    const at::Tensor scaled =
        run_pp("random_affine(scale=[0.5, 1.5])", {{"image", round}}, i).at("image");
    const auto [y, x] = centre(scaled);
    CHECK(std::abs(y) < 1e-3);
    CHECK(std::abs(x) < 1e-3);
    const double size = std::sqrt(scaled.sum().item<double>() / round.sum().item<double>());
    least = std::min(least, size);
    most = std::max(most, size);

    const at::Tensor turned = run_pp("random_affine(rotate=30)", {{"image", bar}}, i).at("image");
    CHECK(turned.sum().item<double>() == Approx(bar.sum().item<double>()).epsilon(0.02));
    double xy = 0, xx = 0, yy = 0;
    for (int64_t r = 0; r < 41; ++r) {
      for (int64_t c = 0; c < 41; ++c) {
        const double v = turned.const_data_ptr<float>()[r * 41 + c];
        xy += v * static_cast<double>((r - 20) * (c - 20));
        xx += v * static_cast<double>((c - 20) * (c - 20));
        yy += v * static_cast<double>((r - 20) * (r - 20));
      }
    }
    steepest =
        std::max(steepest, std::abs(std::atan2(2 * xy, xx - yy)) / 2 * 180 / std::numbers::pi);
  }
  CHECK(least == Approx(0.5).margin(0.02));
  CHECK(most == Approx(1.5).margin(0.02));
  CHECK(steepest == Approx(30).margin(1));
}

}  // namespace bv::test
