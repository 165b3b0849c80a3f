// synthetic: generated images that a model can learn to classify.
//
// Splits: train, val, validation, test. Examples: "image" (JPEG bytes, or (height, width, channels)
// uint8), "label" int64. An image is a brightness gradient plus noise; the gradient's direction in
// each channel depends on the class.
#include "lib/input/sources/synthetic.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/config/key_table.h"
#include "lib/input/image/jpeg.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

const KeyTable synthetic_keys(
    "input.data: synthetic",
    {"Generated images with learnable classes, for trying out a config and measuring speed without "
     "files: brightness gradients whose direction depends on the class, with noise. The splits are "
     "train, val, validation and test. Examples have `image` and `label`.",
     "name: synthetic\nsize: 4096\nimage_size: 224"},
    {{"size", "int 1..1099511627776", "1024", "Number of examples in each split."},
     {"image_size", "int 1..16384", "256", "Height and width of the images in pixels."},
     {"height", "int 1..16384", "= image_size",
      "Height of the images in pixels, for images that are not square."},
     {"width", "int 1..16384", "= image_size",
      "Width of the images in pixels, for images that are not square."},
     {"channels", "'1' | '3'", "3", "Number of channels: 3 for colour images, 1 for grey ones."},
     {"classes", "int 1..2147483648", "= num_classes, or 10 if it is not known",
      "Number of classes; the examples cycle through them. Leave it out to get as many as the "
      "model has.",
      "100"},
     {"encoded", "'jpeg' | 'none'", "jpeg",
      "Format of the images: `jpeg` makes JPEG files, which an op such as `decode` must decode, so "
      "that decoding time is measured too. `none` makes pixels."}});

constexpr int64_t kDefaultClasses = 10;
constexpr int kJpegQuality = 90;
constexpr int64_t kMaxLabels = int64_t{1} << 20;

class Synthetic : public Source {
 public:
  Synthetic(const SyntheticSpec& spec, std::vector<std::string> splits, const SourceEnv& env)
      : spec_(spec), splits_(std::move(splits)), seed_(env.seed) {
    using Labels = SyntheticSpec::Labels;
    targets_ = std::max<int64_t>(env.num_classes, 1);
    const bool predicts = spec_.labels == Labels::target || spec_.labels == Labels::targets ||
                          spec_.labels == Labels::target_and_targets;
    if (spec_.classes == 0 || predicts)
      spec_.classes = env.num_classes > 0 && !predicts ? env.num_classes : kDefaultClasses;
  }

  Synthetic(const Config& config, const SourceEnv& env)
      : Synthetic(read_spec(config), {"test", "train", "val", "validation"}, env) {
    knows_labels_ = spec_.size <= kMaxLabels;
  }

  std::vector<std::string> splits() const override { return splits_; }
  int64_t size(size_t split) const override {
    const auto known = spec_.split_sizes.find(splits_.at(split));
    return known == spec_.split_sizes.end() ? spec_.size : known->second;
  }
  bool is_array() const override { return !spec_.encoded; }
  SyntheticSpec synthetic_spec() const override { return spec_; }
  at::Tensor labels(size_t split) const override {
    return knows_labels_ ? at::arange(size(split), at::kLong).remainder(spec_.classes)
                         : at::Tensor();
  }

  Example read(size_t split, int64_t index) const override {
    const int64_t label = index % spec_.classes;
    const uint64_t stream = seed_ ^ hash64(splits_.at(split));
    at::Tensor image = draw(Rng(stream, Purpose::synthetic, index), label);
    if (spec_.encoded) image = encode_jpeg(image, kJpegQuality);
    using Labels = SyntheticSpec::Labels;
    const auto is = [&](Labels one, Labels other) {
      return spec_.labels == one || spec_.labels == other;
    };
    Example example = {{"image", image}};
    if (is(Labels::class_number, Labels::number_and_classes))
      example[spec_.label] = at::full({}, label, at::kLong);
    if (is(Labels::classes, Labels::number_and_classes)) {
      example["labels"] = at::zeros({spec_.classes}, at::kFloat);
      example["labels"].mutable_data_ptr<float>()[label] = 1;
    }
    if (is(Labels::target, Labels::target_and_targets))
      example[spec_.label] = at::full({}, label, at::kFloat);
    if (is(Labels::targets, Labels::target_and_targets))
      example["labels"] = at::full({targets_}, label, at::kFloat);
    return example;
  }

 private:
  static SyntheticSpec read_spec(const Config& config) {
    SyntheticSpec spec;
    const auto positive = [&](std::string_view key, int64_t fallback, int64_t most) {
      const int64_t value = config.get<int64_t>(key, fallback);
      if (value >= 1 && value <= most) return value;
      config.problem(key, fmt::format("must be within 1 .. {}, got {}", most, value));
      return fallback;
    };
    spec.size = positive("size", spec.size, int64_t{1} << 40);
    const int64_t side = positive("image_size", spec.height, 16384);
    spec.height = positive("height", side, 16384);
    spec.width = positive("width", side, 16384);
    spec.channels = config.get<int64_t>("channels", spec.channels);
    if (spec.channels != 1 && spec.channels != 3) {
      config.problem("channels", fmt::format("must be 1 or 3, got {}", spec.channels));
      spec.channels = 3;
    }
    spec.classes = config.has("classes") ? positive("classes", 1, int64_t{1} << 31)
                                         : config.maybe<int64_t>("classes").value_or(0);
    spec.encoded = config.word("encoded", "jpeg", {"jpeg", "none"}) == "jpeg";
    return spec;
  }

  at::Tensor draw(Rng rng, int64_t label) const {
    at::Tensor image = at::empty({spec_.height, spec_.width, spec_.channels}, at::kByte);
    uint8_t* out = image.mutable_data_ptr<uint8_t>();
    // Multiples of the golden ratio and of its square and cube spread any number of classes evenly
    // over the directions.
    constexpr double kSpread[3] = {0.6180339887498949, 0.3819660112501051, 0.2360679774997897};
    double down[3], right[3];
    for (int c = 0; c < 3; ++c) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(label + 1) * kSpread[c];
      down[c] = 80 * std::sin(angle);
      right[c] = 80 * std::cos(angle);
    }
    uint32_t noise = 0;
    int left = 0;
    for (int64_t y = 0; y < spec_.height; ++y) {
      const double v = 2 * (static_cast<double>(y) + 0.5) / static_cast<double>(spec_.height) - 1;
      for (int64_t x = 0; x < spec_.width; ++x) {
        const double u = 2 * (static_cast<double>(x) + 0.5) / static_cast<double>(spec_.width) - 1;
        for (int64_t c = 0; c < spec_.channels; ++c) {
          if (left == 0) {
            noise = rng.bits();
            left = 4;
          }
          // |down| + |right| <= 114 and noise within +-12 keep the value inside 0..255.
          const double value =
              128 + down[c] * v + right[c] * u + (noise & 0xFF) * (24.0 / 255) - 12;
          *out++ = static_cast<uint8_t>(value);
          noise >>= 8;
          --left;
        }
      }
    }
    return image;
  }

  SyntheticSpec spec_;
  std::vector<std::string> splits_;
  uint64_t seed_;
  int64_t targets_ = 1;        // numbers that the model predicts
  bool knows_labels_ = false;  // false for --synthetic: no warnings about missing classes
};

const Register<Source, Synthetic> registered_synthetic("synthetic");

}  // namespace

std::unique_ptr<Source> make_synthetic(const SyntheticSpec& spec,
                                       const std::vector<std::string>& splits,
                                       const SourceEnv& env) {
  return std::make_unique<Synthetic>(spec, splits, env);
}

}  // namespace bv
