// synthetic: generated images that a model can learn. Keys: size, image_size or height and width,
// channels, classes, encoded (jpeg or none).
//
// An image is a brightness gradient whose direction, per channel, belongs to the class, plus noise.
#include "lib/input/sources/common/synthetic.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <numbers>

#include "lib/input/image/jpeg.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr int64_t kDefaultClasses = 10;
constexpr int kJpegQuality = 90;
constexpr int64_t kMostLabels = int64_t{1} << 20;

class Synthetic : public Source {
 public:
  Synthetic(const SyntheticForm& form, std::vector<std::string> splits, const SourceEnv& env)
      : form_(form), splits_(std::move(splits)), seed_(env.seed) {
    if (form_.classes == 0) form_.classes = env.num_classes > 0 ? env.num_classes : kDefaultClasses;
  }

  Synthetic(const Config& config, const SourceEnv& env)
      : Synthetic(read_form(config), {"test", "train", "val", "validation"}, env) {
    knows_labels_ = form_.size <= kMostLabels;
  }

  std::vector<std::string> splits() const override { return splits_; }
  int64_t size(size_t split) const override {
    const auto known = form_.split_sizes.find(splits_.at(split));
    return known == form_.split_sizes.end() ? form_.size : known->second;
  }
  bool is_array() const override { return !form_.encoded; }
  SyntheticForm synthetic_form() const override { return form_; }
  at::Tensor labels(size_t split) const override {
    return knows_labels_ ? at::arange(size(split), at::kLong).remainder(form_.classes)
                         : at::Tensor();
  }

  Example read(size_t split, int64_t index) const override {
    const int64_t label = index % form_.classes;
    const uint64_t stream = seed_ ^ hash64(splits_.at(split));
    at::Tensor image = draw(Rng(stream, Purpose::synthetic, index), label);
    if (form_.encoded) image = encode_jpeg(image, kJpegQuality);
    return {{"image", image}, {form_.label, at::full({}, label, at::kLong)}};
  }

 private:
  static SyntheticForm read_form(const Config& config) {
    SyntheticForm form;
    const auto positive = [&](std::string_view key, int64_t fallback, int64_t most) {
      const int64_t value = config.get<int64_t>(key, fallback);
      if (value >= 1 && value <= most) return value;
      config.problem(key, fmt::format("must be within 1 .. {}, got {}", most, value));
      return fallback;
    };
    form.size = positive("size", form.size, int64_t{1} << 40);
    const int64_t side = positive("image_size", form.height, 16384);
    form.height = positive("height", side, 16384);
    form.width = positive("width", side, 16384);
    form.channels = config.get<int64_t>("channels", form.channels);
    if (form.channels != 1 && form.channels != 3) {
      config.problem("channels", fmt::format("must be 1 or 3, got {}", form.channels));
      form.channels = 3;
    }
    form.classes = config.has("classes") ? positive("classes", 1, int64_t{1} << 31)
                                         : config.get<int64_t>("classes", 0);
    form.encoded = config.word("encoded", "jpeg", {"jpeg", "none"}) == "jpeg";
    return form;
  }

  at::Tensor draw(Rng rng, int64_t label) const {
    at::Tensor image = at::empty({form_.height, form_.width, form_.channels}, at::kByte);
    uint8_t* out = image.mutable_data_ptr<uint8_t>();
    // The golden ratio and its square and cube spread any number of classes over the directions.
    constexpr double kSpread[3] = {0.6180339887498949, 0.3819660112501051, 0.2360679774997897};
    double down[3], right[3];
    for (int c = 0; c < 3; ++c) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(label + 1) * kSpread[c];
      down[c] = 80 * std::sin(angle);
      right[c] = 80 * std::cos(angle);
    }
    uint32_t noise = 0;
    int left = 0;
    for (int64_t y = 0; y < form_.height; ++y) {
      const double v = 2 * (static_cast<double>(y) + 0.5) / static_cast<double>(form_.height) - 1;
      for (int64_t x = 0; x < form_.width; ++x) {
        const double u = 2 * (static_cast<double>(x) + 0.5) / static_cast<double>(form_.width) - 1;
        for (int64_t c = 0; c < form_.channels; ++c) {
          if (left == 0) {
            noise = rng.bits();
            left = 4;
          }
          // |down| + |right| <= 114 and noise within +-12 stay inside 0..255.
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

  SyntheticForm form_;
  std::vector<std::string> splits_;
  uint64_t seed_;
  bool knows_labels_ = false;  // as a stand-in it leaves classes and their warnings alone
};

const Register<Source, Synthetic> registered("synthetic");

}  // namespace

std::unique_ptr<Source> make_synthetic(const SyntheticForm& form,
                                       const std::vector<std::string>& splits,
                                       const SourceEnv& env) {
  return std::make_unique<Synthetic>(form, splits, env);
}

}  // namespace bv
