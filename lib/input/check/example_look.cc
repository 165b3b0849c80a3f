#include "lib/input/check/example_look.h"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <functional>
#include <span>

#include "lib/input/check/image_alpha.h"
#include "lib/input/image/decode.h"
#include "lib/input/loader/example_failure.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Decodes a feature that is an image. nullopt for any other feature.
std::optional<SeenImage> look_at_feature(const std::string& key, const at::Tensor& value,
                                         bool in_arrays, bool moments) {
  SeenImage seen;
  at::Tensor image = value;
  if (value.dim() == 1 && value.scalar_type() == at::kByte) {
    const at::Tensor dense = value.contiguous();
    const std::span<const uint8_t> bytes(dense.const_data_ptr<uint8_t>(),
                                         static_cast<size_t>(dense.numel()));
    const std::string format = image_format(bytes);
    const bool encoded = format == "JPEG" || format == "PNG" || format == "WebP";
    // In arrays, vectors of bytes are flat images.
    if (!encoded && (key != "image" || in_arrays)) return std::nullopt;
    seen.alpha = has_alpha(bytes);
    image = decode_image(bytes, /*channels=*/0, /*precise=*/false);
  } else if (key != "image" || value.dim() < 2 || value.dim() > 3) {
    return std::nullopt;
  }
  seen.bytes = static_cast<int64_t>(value.nbytes());
  seen.height = image.size(0);
  seen.width = image.size(1);
  if (at::isFloatingType(image.scalar_type()) && !at::isfinite(image).all().item<bool>())
    throw Error::bare(Exit::data, fmt::format("'{}' has a value that is not finite", key));
  if (moments)
    seen.by_channel = pixel_moments(image);
  else
    seen.by_channel.resize(image.dim() == 3 ? image.size(2) : 1);
  return seen;
}

// `names`: the number of class names.
std::vector<int64_t> classes_of(const Example& example, int64_t names) {
  const auto label = example.find("label"), labels = example.find("labels");
  if (label != example.end() && label->second.numel() == 1 &&
      at::isIntegralType(label->second.scalar_type(), /*includeBool=*/false))
    return {label->second.item<int64_t>()};
  std::vector<int64_t> positive;
  if (labels == example.end() || labels->second.dim() != 1 || labels->second.size(0) != names)
    return positive;
  const at::Tensor values = labels->second.to(at::kDouble).contiguous();
  for (int64_t i = 0; i < names; ++i) {
    if (values.const_data_ptr<double>()[i] > 0) positive.push_back(i);
  }
  return positive;
}

// Runs `body`. If the example is at fault, sets look.broken and returns false. `reads`: `body` uses
// nothing but the example, so every Error(Exit::usage) is the example's fault.
bool attempt_look(const OpenedData& opened, int64_t index, bool reads, ExampleLook& look,
                  const std::function<void()>& body) {
  std::string where;
  try {
    try {
      body();
      return true;
    } catch (const Error& error) {
      where = error.where();
      throw;
    }
  } catch (...) {
    const ExampleFailure failure = current_failure(*opened.data, index);
    if ((failure.of_config && !reads) || failure.code != Exit::data) throw;
    look.broken = {opened.name, failure.name, "", std::nullopt, failure.reason};
    find_file(*look.broken, where, opened.folder);
    return false;
  }
}

}  // namespace

ExampleLook look_at_example(const OpenedData& opened, int64_t index, const LookOptions& options) {
  ExampleLook look;
  Example example;
  const auto read = [&] {
    example = opened.data->read(index);
    for (const auto& [key, value] : example) {
      if (auto image = look_at_feature(key, value, opened.data->is_array(), options.moments))
        look.images.push_back(std::move(*image));
    }
    look.classes = classes_of(example, std::ssize(opened.data->class_names()));
  };
  if (!attempt_look(opened, index, /*reads=*/true, look, read) || !options.pp) return look;
  attempt_look(opened, index, /*reads=*/false, look, [&] {
    Rng rng(options.seed, Purpose::augment, static_cast<uint64_t>(index));
    opened.pp->apply(example, rng);
    for (const auto& [key, value] : example)
      look.form[key] = {value.sizes().vec(), c10::toString(value.scalar_type())};
  });
  return look;
}

}  // namespace bv
