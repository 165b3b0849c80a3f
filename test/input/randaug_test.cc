// randaug: each operation is compared with the golden results and with plain forms of its
// definition (big_vision pp/archive/autoaugment.py); and how operations are drawn
// (pp/archive/randaug.py).

#include "lib/ckpt/formats/npz.h"
#include "lib/input/image/rand_augment.h"
#include "test/input/op_support.h"

namespace bv::test {
namespace {

at::Tensor augmented(const at::Tensor& image, const AugmentationDraw& draw, double magnitude) {
  at::Tensor out = image.clone();
  augment({out.mutable_data_ptr<uint8_t>(), out.size(0), out.size(1)}, draw, magnitude);
  return out;
}

Augmentation op_named(std::string_view name) {
  for (size_t i = 0; i < kAugmentationNames.size(); ++i) {
    if (kAugmentationNames[i] == name) return static_cast<Augmentation>(i);
  }
  FAIL("no operation " << name);
  return Augmentation::invert;
}

at::Tensor augmented(const at::Tensor& image, std::string_view op, double magnitude,
                     bool negative = false) {
  return augmented(image, {.op = op_named(op), .negative = negative}, magnitude);
}

// Returns the first index whose random stream draws `op`.
uint64_t index_drawing(Augmentation op) {
  for (uint64_t index = 0;; ++index) {
    Rng rng(7, Purpose::augment, index);
    if (draw_augmentation(9, 9, rng).op == op) return index;
  }
}

int at_pixel(const at::Tensor& image, int64_t y, int64_t x, int64_t c) {
  return image.const_data_ptr<uint8_t>()[(y * image.size(1) + x) * 3 + c];
}

const std::vector<std::vector<int64_t>> kShapes = {{1, 1, 3},   {1, 7, 3},   {9, 1, 3},
                                                   {2, 2, 3},   {3, 3, 3},   {5, 40, 3},
                                                   {37, 11, 3}, {64, 48, 3}, {48, 64, 3}};

}  // namespace

TEST_CASE("randaug's operations give the golden results") {
  const std::string file = golden_file("pp/randaug.npz");
  if (file.empty()) return;
  const NamedTensors golden = read_npz(file);
  const at::Tensor input = golden.at("input");
  size_t checked = 0;
  for (const auto& [key, theirs] : golden) {
    if (key == "input" || key.ends_with("/arg")) continue;
    const size_t slash = key.find('/');
    const double magnitude = std::stod(key.substr(1, slash - 1));  // "m10/Rotate_neg"
    std::string name = key.substr(slash + 1);
    const bool negative = name.ends_with("_neg");
    if (negative) name.resize(name.size() - 4);
    CAPTURE(key);
    // The README allows 1 grey level, and 1 % of the pixels where geometry is involved.
    CHECK(same_bits(augmented(input, name, magnitude, negative), theirs));
    ++checked;
  }
  CHECK(checked == 40);
}

TEST_CASE("randaug's point operations, value by value") {
  at::Tensor values = at::arange(256, at::kByte).view({16, 16, 1}).expand({16, 16, 3}).contiguous();
  const auto result = [&](std::string_view op, double magnitude, int v) {
    return at_pixel(augmented(values, op, magnitude), v / 16, v % 16, 1);
  };
  for (int v = 0; v < 256; ++v) {
    CAPTURE(v);
    CHECK(result("Invert", 3, v) == 255 - v);
    CHECK(result("Posterize", 10, v) == (v & 0xF0));
    CHECK(result("Posterize", 15, v) == (v & 0xFC));
    CHECK(result("Posterize", 7, v) == (v & 0xC0));
    CHECK(result("Posterize", 20, v) == v);
    // Shifts in TensorFlow end at 7, and negative ones wrap to 8 bits.
    CHECK(result("Posterize", 0, v) == (v & 0x80));
    CHECK(result("Posterize", 30, v) == (v & 0x80));
    CHECK(result("Solarize", 5, v) == (v < 128 ? v : 255 - v));
    CHECK(result("Solarize", 10, v) == 255 - v);
    CHECK(result("Solarize", 15, v) == (v < 128 ? v : 255 - v));
    CHECK(result("Solarize", 3, v) == (v < 76 ? v : 255 - v));
    CHECK(result("SolarizeAdd", 10, v) == (v < 128 ? v + 110 : v));
    CHECK(result("SolarizeAdd", 20, v) == (v < 128 ? std::min(v + 220, 255) : v));
    // 0.5 * 1.8 + 0.1 = 1: the image itself.
    for (const char* op : {"Color", "Contrast", "Brightness", "Sharpness"}) {
      CHECK(result(op, 5, v) == v);
    }
    CHECK(result("Color", 9, v) == v);  // it is grey already
    CHECK(result("Brightness", 0, v) == static_cast<int>(0.1f * static_cast<float>(v)));
    CHECK(result("Brightness", 10, v) == std::min(255, static_cast<int>(1.9f * v)));
    // 256 pixels: the constant is 1.
    CHECK(result("Contrast", 0, v) == static_cast<int>(1 + 0.1f * static_cast<float>(v - 1)));
    CHECK(result("AutoContrast", 2, v) == v);
  }
}

TEST_CASE("randaug's contrast uses the number of pixels, not the mean, as the reference does") {
  for (const auto& [height, width, constant] : std::vector<std::tuple<int64_t, int64_t, int>>{
           {224, 224, 196}, {8, 8, 0}, {300, 300, 255}}) {
    const at::Tensor image = at::full({height, width, 3}, 77, at::kByte);
    const float expected = static_cast<float>(constant) + 0.1f * static_cast<float>(77 - constant);
    CHECK(at_pixel(augmented(image, "Contrast", 0), 0, 0, 0) == static_cast<int>(expected));
  }
}

TEST_CASE("randaug stretches and flattens each channel by itself") {
  at::Tensor image = at::zeros({4, 64, 3}, at::kByte);
  for (int64_t i = 0; i < 256; ++i) {
    uint8_t* pixel = image.mutable_data_ptr<uint8_t>() + 3 * i;
    pixel[0] = static_cast<uint8_t>(100 + i % 51);  // 100 .. 150
    pixel[1] = 9;                                   // constant
    pixel[2] = static_cast<uint8_t>(i / 2);         // 0 .. 127, two of each
  }
  const at::Tensor stretched = augmented(image, "AutoContrast", 10);
  CHECK(stretched.select(2, 0).min().item<int>() == 0);
  CHECK(stretched.select(2, 0).max().item<int>() == 255);
  CHECK(stretched.select(2, 1).eq(9).all().item<bool>());
  CHECK(at_pixel(stretched, 0, 2, 2) == 2);  // 1 * 255/127 = 2.008
  const at::Tensor flat = augmented(image, "Equalize", 10);
  CHECK(flat.select(2, 1).eq(9).all().item<bool>());
  // step = (256 - 2) / 255 = 0: unchanged.
  CHECK(at::equal(flat.select(2, 2), image.select(2, 2)));
  at::Tensor steep = at::zeros({20, 64, 3}, at::kByte);  // 1280 pixels: 0 .. 15, 80 of each
  for (int64_t i = 0; i < steep.numel(); ++i) {
    steep.mutable_data_ptr<uint8_t>()[i] = static_cast<uint8_t>(i / 3 % 16);
  }
  const at::Tensor spread = augmented(steep, "Equalize", 10);
  // step = (1280 - 80) / 255 = 4: value v becomes (80 v + 2) / 4.
  for (int64_t v = 0; v < 16; ++v) {
    CHECK(at_pixel(spread, 0, v, 0) == (v == 0 ? 0 : std::min<int64_t>(255, (80 * v + 2) / 4)));
  }
}

TEST_CASE("randaug's geometric operations move pixels as named, and fill with 128") {
  const at::Tensor image = noise({60, 50, 3}, at::kByte);
  const auto shifted = [&](int64_t dy, int64_t dx) {  // shows (y + dy, x + dx)
    at::Tensor out = at::full_like(image, 128);
    for (int64_t y = 0; y < 60; ++y) {
      for (int64_t x = 0; x < 50; ++x) {
        if (y + dy < 0 || y + dy >= 60 || x + dx < 0 || x + dx >= 50) continue;
        out[y][x] = image[y + dy][x + dx];
      }
    }
    return out;
  };
  CHECK(at::equal(augmented(image, "TranslateX", 2), shifted(0, 20)));
  CHECK(at::equal(augmented(image, "TranslateX", 2, true), shifted(0, -20)));
  CHECK(at::equal(augmented(image, "TranslateY", 1), shifted(10, 0)));
  CHECK(at::equal(augmented(image, "TranslateY", 1, true), shifted(-10, 0)));
  CHECK(augmented(image, "TranslateY", 10).eq(128).all().item<bool>());
  for (const char* op : {"Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY"}) {
    CHECK(at::equal(augmented(image, op, 0), image));
  }
  CHECK(at::equal(augmented(image, "Rotate", 60), image.flip({0, 1})));  // half a turn
  const at::Tensor square = image.narrow(0, 0, 50).contiguous();
  CHECK(at::equal(augmented(square, "Rotate", 30), square.rot90(1, {0, 1})));
  CHECK(at::equal(augmented(square, "Rotate", 30, true), square.rot90(-1, {0, 1})));
  // Row y moves by 0.3 y, rounded half away from zero.
  const at::Tensor sheared = augmented(image, "ShearX", 10);
  for (int64_t y = 0; y < 60; ++y) {
    const auto by = static_cast<int64_t>(std::lround(0.3 * static_cast<double>(y) + 1e-9));
    if (by >= 50) continue;
    CHECK(at::equal(sheared[y].narrow(0, 0, 50 - by), image[y].narrow(0, by, 50 - by)));
    CHECK(sheared[y].narrow(0, 50 - by, by).eq(128).all().item<bool>());
  }
}

TEST_CASE("randaug's sharpness does not change the border and flat areas") {
  const at::Tensor image = noise({12, 9, 3}, at::kByte);
  const at::Tensor blurred = augmented(image, "Sharpness", 0);
  for (const int64_t dim : {0, 1}) {
    for (const int64_t side : {int64_t{0}, image.size(dim) - 1}) {
      CHECK(at::equal(blurred.select(dim, side), image.select(dim, side)));
    }
  }
  for (int64_t y = 1; y + 1 < 12; ++y) {
    for (int64_t x = 1; x + 1 < 9; ++x) {
      double sum = 4 * at_pixel(image, y, x, 1);
      for (int64_t dy = -1; dy <= 1; ++dy) {
        for (int64_t dx = -1; dx <= 1; ++dx) sum += at_pixel(image, y + dy, x + dx, 1);
      }
      const double expected = 0.9 * std::floor(sum / 13) + 0.1 * at_pixel(image, y, x, 1);
      CHECK(std::abs(at_pixel(blurred, y, x, 1) - expected) <= 2);
    }
  }
  for (const int value : {0, 1, 127, 255}) {
    const at::Tensor flat = at::full({7, 8, 3}, value, at::kByte);
    const at::Tensor out = augmented(flat, "Sharpness", 10);
    // A sum of nine rounded products may be smaller than the value by one.
    CHECK((out.to(at::kInt) - value).abs().max().item<int>() <= 1);
  }
}

TEST_CASE("randaug's cutout is a square around its centre, clipped at the border") {
  const at::Tensor image = at::zeros({50, 60, 3}, at::kByte);
  for (const auto& [y, x] :
       std::vector<std::pair<int64_t, int64_t>>{{25, 30}, {0, 0}, {49, 59}, {5, 58}, {49, 0}}) {
    at::Tensor expected = image.clone();
    const int64_t top = std::max<int64_t>(0, y - 8), left = std::max<int64_t>(0, x - 8);
    expected.slice(0, top, std::min<int64_t>(50, y + 8))
        .slice(1, left, std::min<int64_t>(60, x + 8))
        .fill_(128);
    CHECK(at::equal(augmented(image, {.op = Augmentation::cutout, .y = y, .x = x}, 2), expected));
    CHECK(at::equal(augmented(image, {.op = Augmentation::cutout, .y = y, .x = x}, 0), image));
  }
}

TEST_CASE("randaug takes images of any size at any magnitude") {
  for (const auto& shape : kShapes) {
    const at::Tensor image = noise(shape, at::kByte);
    for (size_t op = 0; op < kAugmentationNames.size(); ++op) {
      for (const double magnitude : {0.0, 0.3, 5.0, 10.0, 30.0, 100.0}) {
        for (const bool negative : {false, true}) {
          const AugmentationDraw draw = {static_cast<Augmentation>(op), negative, shape[0] - 1, 0};
          CAPTURE(shape, kAugmentationNames[op], magnitude);
          const at::Tensor out = augmented(image, draw, magnitude);
          CHECK(out.sizes() == image.sizes());
          const bool keeps_bounds =
              shape[0] * shape[1] == 1 &&
              (kAugmentationNames[op] == "AutoContrast" || kAugmentationNames[op] == "Equalize" ||
               kAugmentationNames[op] == "Sharpness");
          if (keeps_bounds) CHECK(at::equal(out, image));
        }
      }
    }
  }
}

TEST_CASE("randaug draws every operation, sign and centre equally often") {
  constexpr int kDraws = 32000;
  std::array<int, 16> ops{}, negative{};
  std::map<std::pair<int64_t, int64_t>, int> centres;
  for (int i = 0; i < kDraws; ++i) {
    Rng rng(3, Purpose::augment, i);
    const AugmentationDraw draw = draw_augmentation(4, 5, rng);
    ++ops[static_cast<size_t>(draw.op)];
    negative[static_cast<size_t>(draw.op)] += draw.negative ? 1 : 0;
    if (draw.op == Augmentation::cutout) ++centres[{draw.y, draw.x}];
  }
  // 5 standard deviations: of 2000 in 32000, of half of these, of a twentieth of these.
  for (size_t op = 0; op < 16; ++op) {
    CAPTURE(kAugmentationNames[op]);
    CHECK(std::abs(ops[op] - kDraws / 16) < 217);
    const std::string_view name = kAugmentationNames[op];
    const bool has_sign =
        name == "Rotate" || name.starts_with("Shear") || name.starts_with("Translate");
    if (has_sign) {
      CHECK(std::abs(negative[op] - ops[op] / 2) < 112);
    } else {
      CHECK(negative[op] == 0);
    }
  }
  CHECK(centres.size() == 20);
  for (const auto& [centre, count] : centres) CHECK(std::abs(count - 100) < 50);
}

TEST_CASE("randaug applies its layers one after the other") {
  const at::Tensor image = noise({30, 40, 3}, at::kByte);
  for (const int layers : {0, 1, 2, 5}) {
    for (uint64_t index = 0; index < 40; ++index) {
      Rng rng(7, Purpose::augment, index);
      at::Tensor expected = image;
      for (int layer = 0; layer < layers; ++layer) {
        expected = augmented(expected, draw_augmentation(30, 40, rng), 12);
      }
      for (const std::string name : {"randaug", "archive.randaug"}) {
        const std::string pp = fmt::format("{}({}, magnitude=12)", name, layers);
        CHECK(same_bits(run_pp(pp, {{"image", image}}, index).at("image"), expected));
      }
    }
  }
  // The defaults: 2 layers at 10.
  CHECK(same_bits(run_pp("randaug", {{"image", image}}, 5).at("image"),
                  run_pp("randaug(2, 10)", {{"image", image}}, 5).at("image")));
  const Example out = run_pp("randaug(inkey='image', outkey='other')", {{"image", image}}, 5);
  CHECK(same_bits(out.at("image"), image));
  CHECK_FALSE(at::equal(out.at("other"), image));
  for (size_t op = 0; op < 16; ++op) {
    const uint64_t index = index_drawing(static_cast<Augmentation>(op));
    Rng rng(7, Purpose::augment, index);
    CHECK(same_bits(run_pp("randaug(1, 15)", {{"image", image}}, index).at("image"),
                    augmented(image, draw_augmentation(30, 40, rng), 15)));
  }
}

}  // namespace bv::test
