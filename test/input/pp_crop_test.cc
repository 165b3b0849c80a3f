// Random windows: their distribution, and the content of the crops.
#include "lib/ckpt/formats/npz.h"
#include "lib/input/image/crop.h"
#include "test/input/op_support.h"

namespace bv::test {
namespace {

// Returns the p-value of the two-sample Kolmogorov-Smirnov test (Numerical Recipes 14.3).
double ks_p_value(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  const auto part = [](const std::vector<double>& sorted, double x) {
    const auto below = std::upper_bound(sorted.begin(), sorted.end(), x) - sorted.begin();
    return static_cast<double>(below) / static_cast<double>(sorted.size());
  };
  double most = 0;
  for (const auto* sample : {&a, &b}) {
    for (const double x : *sample) most = std::max(most, std::abs(part(a, x) - part(b, x)));
  }
  const double n =
      static_cast<double>(a.size() * b.size()) / static_cast<double>(a.size() + b.size());
  const double lambda = (std::sqrt(n) + 0.12 + 0.11 / std::sqrt(n)) * most;
  if (lambda < 0.2) return 1;
  double p = 0;
  for (int k = 1; k <= 100; ++k)
    p += (k % 2 == 1 ? 2 : -2) * std::exp(-2.0 * k * k * lambda * lambda);
  return p;
}

// Appends area and ratio to the columns y, x, height and width.
void add_area_and_ratio(std::vector<std::vector<double>>& columns) {
  std::vector<double> area, ratio;
  for (size_t i = 0; i < columns[2].size(); ++i) {
    area.push_back(columns[2][i] * columns[3][i]);
    ratio.push_back(columns[3][i] / columns[2][i]);
  }
  columns.push_back(area);
  columns.push_back(ratio);
}

// Returns an image whose pixel (y, x) is [y, x, 7].
at::Tensor coordinates(int64_t height, int64_t width) {
  at::Tensor image = at::empty({height, width, 3}, at::kByte);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      uint8_t* pixel = image.mutable_data_ptr<uint8_t>() + (y * width + x) * 3;
      pixel[0] = static_cast<uint8_t>(y);
      pixel[1] = static_cast<uint8_t>(x);
      pixel[2] = 7;
    }
  }
  return image;
}

std::pair<int, int> corner(const at::Tensor& image) {
  const uint8_t* pixel = image.const_data_ptr<uint8_t>();
  return {pixel[0], pixel[1]};
}

}  // namespace

TEST_CASE("the p-value distinguishes samples") {
  std::vector<double> a, b, c;
  for (int i = 0; i < 1000; ++i) {
    a.push_back(i);
    b.push_back(i + 0.5);
    c.push_back(i * 1.1);
  }
  CHECK(ks_p_value(a, b) > 0.99);
  // scipy.stats.ks_2samp(a, c, method='asymp') gives 4.8e-4.
  CHECK(ks_p_value(a, c) < 1e-3);
}

TEST_CASE("20,000 windows are distributed as the reference's") {
  const std::string file = golden_file("pp/inception_crop_draws.npz");
  if (file.empty()) return;
  const NamedTensors golden = read_npz(file);
  for (const std::string name : {"a", "b"}) {
    const auto number = [&](const char* what, int64_t i) {
      return golden.at(name + what).to(at::kLong)[i].item<int64_t>();
    };
    const int64_t height = number("/image_hw", 0), width = number("/image_hw", 1);
    const CropRange range = {static_cast<double>(number("/area", 0)) / 100,
                             static_cast<double>(number("/area", 1)) / 100};
    const at::Tensor theirs = golden.at(name + "/y_x_h_w").to(at::kDouble).t().contiguous();
    std::vector<std::vector<double>> ours(4);
    for (int64_t i = 0; i < theirs.size(1); ++i) {
      Rng rng(1, Purpose::augment, i);
      const Window window = sample_crop_window(height, width, range, rng);
      REQUIRE(window.y + window.height <= height);
      REQUIRE(window.x + window.width <= width);
      const int64_t values[] = {window.y, window.x, window.height, window.width};
      for (int k = 0; k < 4; ++k) ours[k].push_back(static_cast<double>(values[k]));
    }
    std::vector<std::vector<double>> reference;
    for (int k = 0; k < 4; ++k) {
      const double* column = theirs.const_data_ptr<double>() + k * theirs.size(1);
      reference.emplace_back(column, column + theirs.size(1));
    }
    for (auto* columns : {&ours, &reference}) add_area_and_ratio(*columns);
    for (size_t k = 0; k < ours.size(); ++k) {
      CAPTURE(name, k);
      CHECK(ks_p_value(ours[k], reference[k]) > 1e-3);
    }
  }
}

TEST_CASE("a window that no draw can reach is the whole image") {
  Rng rng(1, Purpose::augment, 0);
  // Aspect ratios up to 1.33 never reach 99 % of an image 10 times as wide as high.
  const Window window = sample_crop_window(10, 100, {0.99, 1}, rng);
  CHECK(window.y == 0);
  CHECK(window.x == 0);
  CHECK(window.height == 10);
  CHECK(window.width == 100);
}

TEST_CASE("the window of one pixel") {
  Rng rng(1, Purpose::augment, 0);
  for (int i = 0; i < 100; ++i) {
    const Window window = sample_crop_window(1, 1, {}, rng);
    CHECK(window.height == 1);
    CHECK(window.width == 1);
  }
}

TEST_CASE("golden window, cut and resized") {
  const std::string file = golden_file("pp/crop_window.npz");
  if (file.empty()) return;
  const NamedTensors golden = read_npz(file);
  for (const std::string name : {"img0", "img1", "img2"}) {
    const at::Tensor image = read_npz(golden_file("pp/" + name + ".npz")).at("decode");
    const at::Tensor window = golden.at(name + "/window");
    const auto at = [&](int64_t i) { return window[i].item<int64_t>(); };
    const at::Tensor cut = image.narrow(0, at(0), at(2)).narrow(1, at(1), at(3));
    const at::Tensor ours = run_pp("resize(48)", {{"image", cut}}).at("image");
    const at::Tensor apart =
        (ours.to(at::kInt) - golden.at(name + "/crop_resized").to(at::kInt)).abs();
    CHECK(apart.max().item<int>() <= 3);
  }
}

TEST_CASE("inception_crop resizes exactly the window it drew") {
  const at::Tensor image = noise({60, 80, 3}, at::kByte);
  for (uint64_t i = 0; i < 20; ++i) {
    const at::Tensor cut = run_pp("inception_crop", {{"image", image}}, i).at("image");
    const at::Tensor resized = run_pp("inception_crop(24)", {{"image", image}}, i).at("image");
    CHECK(same_bits(run_pp("resize(24)", {{"image", cut}}).at("image"), resized));
  }
}

TEST_CASE("decode_jpeg_and_inception_crop cuts the window of inception_crop") {
  for (const std::string name : {"img0.jpg", "img1.jpg", "img2.jpg", "rgba.png"}) {
    const std::string file = golden_file("pp/" + name);
    if (file.empty()) return;
    const std::string content = read_text(file);
    const at::Tensor bytes = at::from_blob(const_cast<char*>(content.data()),
                                           {static_cast<int64_t>(content.size())}, at::kByte);
    for (const std::string args : {"", "40", "[30, 50], 20, 80, method='area'"}) {
      for (uint64_t i = 0; i < 10; ++i) {
        const std::string two = "decode|inception_crop(" + args + ")";
        const at::Tensor apart = run_pp(two, {{"image", bytes}}, i).at("image");
        const at::Tensor ours =
            run_pp("decode_jpeg_and_inception_crop(" + args + ")", {{"image", bytes}}, i)
                .at("image");
        CAPTURE(name, args, i);
        CHECK(same_bits(ours, apart));
      }
    }
    const at::Tensor wide =
        run_pp(
            "decode_jpeg_and_inception_crop(ratio_min=3, ratio_max=3.2, area_min=5, area_max=10,"
            " inkey='image', outkey='crop')",
            {{"image", bytes}})
            .at("crop");
    const double ratio = static_cast<double>(wide.size(1)) / static_cast<double>(wide.size(0));
    CHECK(ratio == Approx(3.1).margin(0.25));
  }
}

TEST_CASE("inception_crop keeps within its area") {
  const at::Tensor image = noise({100, 100, 1}, at::kByte);
  for (uint64_t i = 0; i < 200; ++i) {
    const at::Tensor cut =
        run_pp("inception_crop(area_min=20, area_max=50)", {{"image", image}}, i).at("image");
    CHECK(cut.numel() >= 2000);
    CHECK(cut.numel() <= 5000);
  }
}

TEST_CASE("random_crop reaches every offset equally often") {
  const at::Tensor image = coordinates(6, 7);
  std::map<std::pair<int, int>, int> seen;
  constexpr int kDraws = 3000;
  for (int i = 0; i < kDraws; ++i) {
    const at::Tensor cut = run_pp("random_crop(4)", {{"image", image}}, i).at("image");
    REQUIRE(cut.sizes() == at::IntArrayRef({4, 4, 3}));
    const auto [y, x] = corner(cut);
    ++seen[{y, x}];
    REQUIRE(at::equal(cut, image.narrow(0, y, 4).narrow(1, x, 4)));
  }
  CHECK(seen.size() == 3 * 4);
  // 250 expected in each of 12 cells; the standard deviation is 15.
  for (const auto& [offset, count] : seen) CHECK(std::abs(count - kDraws / 12) < 75);
}

TEST_CASE("central_crop rounds its offset down") {
  CHECK(corner(run_pp("central_crop(4)", {{"image", coordinates(7, 9)}}).at("image")) ==
        std::pair(1, 2));
  CHECK(corner(run_pp("central_crop", {{"image", coordinates(7, 10)}}).at("image")) ==
        std::pair(0, 1));
  CHECK(run_pp("central_crop", {{"image", coordinates(7, 10)}}).at("image").sizes() ==
        at::IntArrayRef({7, 7, 3}));
}

TEST_CASE("flip_lr mirrors half of the images") {
  const at::Tensor image = noise({3, 37, 3}, at::kByte);
  int flipped = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    const at::Tensor out = run_pp("flip_lr", {{"image", image}}, i).at("image");
    const bool mirrored = at::equal(out, image.flip(1));
    REQUIRE(mirrored != at::equal(out, image));
    flipped += mirrored ? 1 : 0;
  }
  CHECK(std::abs(flipped - 1000) < 112);  // 5 standard deviations
}

}  // namespace bv::test
