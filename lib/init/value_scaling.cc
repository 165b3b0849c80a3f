#include "lib/init/value_scaling.h"

#include <algorithm>

#include "lib/config/call.h"
#include "lib/init/sampled_images.h"
#include "lib/input/ops/common/example_keys.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

[[noreturn]] void refuse(const std::string& origin, const std::string& why) {
  throw Error(
      Exit::usage, origin,
      fmt::format("was trained on images that {}; write pp, pp_fn and model_init yourself", why));
}

// Returns an argument of the op value_range, or `fallback` if it is not given. Throws
// Error(Exit::usage) if it is a list, with one number per channel.
double bound(const Config& args, const char* name, double fallback, const std::string& origin) {
  if (args.is_list(name))
    refuse(origin, fmt::format("value_range scaled by channel ({} is a list)", name));
  return args.get<double>(name, fallback);
}

// Returns the range to which value_range maps `before`, or in_min and in_max if no op has scaled
// the values before.
ValueBounds scaled(const Config& args, const std::optional<ValueBounds>& before,
                   const std::string& origin) {
  const ValueBounds target{bound(args, "vmin", -1, origin), bound(args, "vmax", 1, origin)};
  const ValueBounds from{bound(args, "in_min", 0, origin), bound(args, "in_max", 255, origin)};
  if (!before || from.least == from.most) return target;
  const auto map = [&](double value) {
    return target.least +
           (target.most - target.least) * ((value - from.least) / (from.most - from.least));
  };
  return {map(before->least), map(before->most)};
}

}  // namespace

ValueBounds range_of_data(const SampledImages& images) {
  if (images.encoded) return {};
  if (images.least < 0) {
    return std::max(-images.least, images.most) <= 1 ? ValueBounds{-1, 1}
                                                     : ValueBounds{images.least, images.most};
  }
  const bool integers = at::isIntegralType(images.type, /*includeBool=*/true);
  // Masks, scikit-learn's digits, 8 bits.
  for (const double top : {1, 16, 255}) {
    // Floats may have any range. Resizing with a cubic filter slightly exceeds it.
    const bool fits =
        integers ? images.most <= top : images.most > top / 2 && images.most <= 1.05 * top;
    if (fits) return {0, top};
  }
  if (!integers) return {0, images.most};
  for (const int bits : {10, 12, 14, 16}) {
    if (images.most < 1 << bits) return {0, static_cast<double>((1 << bits) - 1)};
  }
  return {0, images.most};
}

ValueScaling scaling_in(const std::string& pp, const std::string& origin) {
  ValueScaling scaling{.target = std::nullopt, .normalize = ""};
  for (const std::string& part : split(pp, '|')) {
    const std::string op = trim(part), name = trim(op.substr(0, op.find('(')));
    const bool range = name == "value_range";
    if (!range && name != "vgg_value_range" && name != "clip_value_range") continue;
    // Their arguments are explained in lib/input/ops.
    const Config args = parse_calls(op, Place{origin}).at(0).args;
    ValueBounds target = scaling.target.value_or(ValueBounds{});
    if (range) target = scaled(args, scaling.target, origin);
    if (InOutKeys(args).out != "image") continue;
    if (!scaling.normalize.empty())
      refuse(origin, fmt::format("{} scaled after {}", name,
                                 scaling.normalize.substr(0, scaling.normalize.find('('))));
    scaling = {.target = target, .normalize = range ? "" : op};
  }
  return scaling;
}

std::string value_range_call(const ValueBounds& target, const ValueBounds& source) {
  std::string text = "value_range(" + json_number(target.least) + ", " + json_number(target.most);
  if (source != ValueBounds{})
    text += ", " + json_number(source.least) + ", " + json_number(source.most);
  return text + ")";
}

}  // namespace bv
