#include "lib/input/check/example_look.h"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <functional>
#include <span>

#include "lib/input/check/image_alpha.h"
#include "lib/input/image/decode.h"
#include "lib/input/image/image_suffix.h"
#include "lib/input/loader/example_failure.h"
#include "lib/input/sources/common/file_bytes.h"
#include "lib/input/sources/common/manifest/manifest.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Decodes a feature that is an image. nullopt for any other feature. `precise`: see decode_jpeg().
std::optional<SeenImage> look_at_feature(const std::string& key, const at::Tensor& value,
                                         bool in_arrays, bool moments, bool precise) {
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
    image = decode_image(bytes, /*channels=*/0, precise);
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

// Sets look.classes, look.several and look.numbers.
void look_at_labels(const Example& example, int64_t num_classes, ExampleLook& look) {
  const auto label = example.find("label"), labels = example.find("labels");
  if (labels != example.end() && labels->second.dim() == 1 &&
      labels->second.size(0) == num_classes) {
    const at::Tensor values = labels->second.to(at::kDouble).contiguous();
    for (int64_t i = 0; i < num_classes; ++i) {
      const double value = values.const_data_ptr<double>()[i];
      if (value == 1) look.classes.push_back(i);
      look.numbers |= value != 0 && value != 1;
    }
    look.several = look.classes.size() != 1;
  } else if (label != example.end() && label->second.numel() == 1 &&
             at::isIntegralType(label->second.scalar_type(), /*includeBool=*/false)) {
    look.classes.push_back(label->second.item<int64_t>());
  }
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
    look.broken = broken_example(opened, index, failure.reason, where);
    return false;
  }
}

bool is_readable(const std::string& file) {
  try {
    file_bytes(file, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns the path of the file that broke an example, among those that it names. That is the file
// of the feature `decoded`, which could not be decoded, or the first file that cannot be read if
// `decoded` is empty. "" if no file is at fault.
std::string broken_file(const OpenedData& opened, int64_t index, const std::string& decoded) {
  const auto names = opened.data->files_of(index);
  if (!names || names->size() != opened.file_folders.size()) return "";
  auto name = names->begin();
  for (const auto& [feature, folder] : opened.file_folders) {
    const std::string path = row_file(*name++, folder, 0).path;
    if (decoded.empty() ? !is_readable(path) : feature == decoded) return path;
  }
  return "";
}

}  // namespace

BrokenExample broken_example(const OpenedData& opened, int64_t index, const std::string& reason,
                             const std::string& where) {
  BrokenExample broken{opened.name, opened.data->describe(index), "", std::nullopt, reason};
  find_file(broken, where, opened.folder);
  broken.files = opened.data->files_of(index);
  return broken;
}

ExampleLook look_at_example(const OpenedData& opened, int64_t index, const LookOptions& options) {
  ExampleLook look;
  Example example;
  std::string decoded;  // the current feature
  const auto read = [&] {
    example = opened.data->read(index);
    for (const auto& [key, value] : example) {
      decoded = key;
      const auto& how = opened.decoding;
      const bool precise = options.moments && how && how->precise && how->key == key;
      if (auto image =
              look_at_feature(key, value, opened.data->is_array(), options.moments, precise))
        look.images.push_back(std::move(*image));
    }
    decoded.clear();
    if (opened.class_folders && has_other_image_suffix(opened.data->describe(index)))
      throw Error::bare(Exit::data, kOtherSuffix);  // as at the start of a run
    const int64_t names = std::ssize(opened.data->class_names());
    look_at_labels(example, names > 0 ? names : options.num_classes, look);
  };
  if (!attempt_look(opened, index, /*reads=*/true, look, read)) {
    const std::string file = broken_file(opened, index, decoded);
    if (!file.empty()) blame_file(*look.broken, file);
    return look;
  }
  if (!options.pp) return look;
  attempt_look(opened, index, /*reads=*/false, look, [&] {
    Rng rng(options.seed, Purpose::augment, static_cast<uint64_t>(index));
    opened.pp->apply(example, rng);
    for (const auto& [key, value] : example)
      look.form[key] = {value.sizes().vec(), c10::toString(value.scalar_type())};
  });
  return look;
}

}  // namespace bv
