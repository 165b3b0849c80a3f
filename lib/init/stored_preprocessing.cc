#include "lib/init/stored_preprocessing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "lib/ckpt/weights_file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;

constexpr double kWhite = 255;  // the brightest value of an 8-bit image

// The defaults of the ops that subtract a mean and divide by a standard deviation.
struct KnownScaling {
  const char* op;
  std::array<double, 3> mean, deviation;
};
constexpr std::array<KnownScaling, 2> kKnown = {{
    {"vgg_value_range", {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
    {"clip_value_range", {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}},
}};

double number(const Json& object, const char* key, double fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : fallback;
}

bool flag(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_boolean() || found->get<bool>();
}

// Returns a list of one number per channel, or of one for all; {} if there is no such list.
Numbers numbers(const Json& object, const char* key, int64_t channels) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if (found->is_number()) return {found->get<double>()};
  if (!found->is_array()) return {};
  Numbers all;
  for (const Json& each : *found) {
    if (!each.is_number()) return {};
    all.push_back(each.get<double>());
  }
  return std::ssize(all) == 1 || std::ssize(all) == channels ? all : Numbers();
}

bool near(const Numbers& values, const std::array<double, 3>& known, double scale) {
  constexpr double kTolerance = 1e-3;  // on the scale 0 to 255: files round their numbers
  return std::equal(values.begin(), values.end(), known.begin(), known.end(),
                    [&](double a, double b) { return std::abs(a - b * scale) < kTolerance; });
}

std::string list_text(const Numbers& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(json_number(std::round(value * 1e6) / 1e6));
  return "[" + join(texts, ", ") + "]";
}

// Returns the scaling (x * factor - mean) / std of values from 0 to 255.
std::optional<ValueScaling> scaling_of(Numbers mean, Numbers std, double factor, int64_t channels) {
  if (mean.empty() || std.empty() || !(factor > 0) ||
      std::any_of(std.begin(), std.end(), [](double value) { return !(value > 0); }))
    return std::nullopt;
  const auto same = [](const Numbers& values) {
    return std::all_of(values.begin(), values.end(),
                       [&](double value) { return value == values[0]; });
  };
  if (same(mean) && same(std)) {
    return ValueScaling{
        .target = ValueBounds{(0 - mean[0]) / std[0], (kWhite * factor - mean[0]) / std[0]},
        .normalize = ""};
  }
  for (Numbers* values : {&mean, &std}) {
    if (values->size() == 1) values->resize(static_cast<size_t>(channels), values->front());
    for (double& value : *values) value /= factor;
  }
  ValueScaling scaling{.target = ValueBounds{}, .normalize = ""};
  for (const KnownScaling& known : kKnown) {
    if (near(mean, known.mean, kWhite) && near(std, known.deviation, kWhite)) {
      scaling.normalize = known.op;
      return scaling;
    }
  }
  scaling.normalize =
      fmt::format("vgg_value_range(mean={}, std={})", list_text(mean), list_text(std));
  return scaling;
}

// `config`: the object with timm's `mean`, `std`, `crop_pct`, `crop_mode` and `interpolation`.
StoredPreprocessing of_timm(const Json& config, int64_t channels) {
  StoredPreprocessing stored;
  stored.scaling = scaling_of(numbers(config, "mean", channels), numbers(config, "std", channels),
                              1 / kWhite, channels);
  const double share = number(config, "crop_pct", 0);
  const auto mode = config.find("crop_mode");
  // The other modes, "squash" and "border", change the aspect ratio or pad.
  if (!(share > 0.1 && share <= 1) || (mode != config.end() && *mode != "center")) return stored;
  stored.crop_share = share;
  for (const auto& [theirs, ours] :
       {std::pair("nearest", "nearest"), std::pair("bilinear", "bilinear"),
        std::pair("bicubic", "bicubic"), std::pair("lanczos", "lanczos3")}) {
    if (const auto found = config.find("interpolation"); found != config.end() && *found == theirs)
      stored.resize_method = ours;
  }
  return stored;
}

std::optional<ValueScaling> of_hugging_face(const Json& config, int64_t channels) {
  if (config.empty()) return std::nullopt;
  const double factor =
      flag(config, "do_rescale") ? number(config, "rescale_factor", 1 / kWhite) : 1;
  if (!flag(config, "do_normalize")) return scaling_of({0}, {1}, factor, channels);
  return scaling_of(numbers(config, "image_mean", channels), numbers(config, "image_std", channels),
                    factor, channels);
}

}  // namespace

StoredPreprocessing stored_preprocessing(const std::string& path, int64_t channels) {
  const Json config = json_beside(path, "config.json");
  // Old files of timm have these keys at the top.
  const auto inner = config.find("pretrained_cfg");
  StoredPreprocessing stored =
      of_timm(inner != config.end() && inner->is_object() ? *inner : config, channels);
  if (!stored.scaling)
    stored.scaling = of_hugging_face(json_beside(path, "preprocessor_config.json"), channels);
  return stored;
}

}  // namespace bv
