#include "lib/input/loader/batch_ring.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>
#include <span>
#include <string_view>

#include "lib/device/dtype_name.h"
#include "lib/device/pinned.h"
#include "lib/input/image/decode.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns whether `bytes`, (n,) uint8, are an image that decode_image() supports (and not text).
bool is_encoded(const at::Tensor& bytes) {
  const at::Tensor dense = bytes.contiguous();
  const std::string format =
      image_format({dense.const_data_ptr<uint8_t>(), static_cast<size_t>(dense.numel())});
  return format == "JPEG" || format == "PNG" || format == "WebP";
}

[[noreturn]] void fail_batch(const std::string& why) { throw Error(Exit::usage, "", why); }

}  // namespace

BatchRing::BatchRing(const Example& prototype, int64_t batch_size, int batches, bool evaluation,
                     bool pinned)
    : pinned_(pinned), batches_(batches) {
  for (const auto& [name, value] : prototype) {
    if (evaluation && (name == "_mask" || name == "_id")) {
      fail_batch(
          fmt::format("the evaluation itself uses the name '{}': leave this feature out with "
                      "drop('{}') or keep(...)",
                      name, name));
    }
    if (!value.defined()) fail_batch(fmt::format("feature '{}' has no value", name));
    add(name, value.scalar_type(), value.sizes(), batch_size, features_);
  }
  if (!evaluation) return;
  add("_mask", at::kBool, {}, batch_size, mask_and_id_);
  add("_id", at::kLong, {}, batch_size, mask_and_id_);
}

void BatchRing::add(const std::string& name, at::ScalarType dtype, at::IntArrayRef shape,
                    int64_t batch_size, std::vector<Feature>& to) {
  std::vector<int64_t> whole{batch_size};
  whole.insert(whole.end(), shape.begin(), shape.end());
  Feature feature{name, dtype, shape.vec(), 0, {}};
  for (Batch& batch : batches_) {
    try {
      const at::Tensor tensor = pinned_ ? pinned_empty(whole, dtype) : at::empty(whole, dtype);
      feature.row_bytes = tensor.nbytes() / static_cast<size_t>(batch_size);
      feature.base.push_back(static_cast<char*>(tensor.data_ptr()));
      batch[name] = tensor;
    } catch (const c10::Error&) {
      double bytes = static_cast<double>(c10::elementSize(dtype) * batches_.size());
      for (const int64_t size : whole) bytes *= static_cast<double>(size);
      throw Error::in("input", Exit::memory,
                      fmt::format("no memory for {} batches of feature '{}' {} ({}, {} in total)",
                                  batches_.size(), name, shape_text(whole), dtype_name(dtype),
                                  human_bytes(bytes)));
    }
  }
  to.push_back(std::move(feature));
}

void BatchRing::write(int64_t slot, int64_t row, const Example& example) {
  copy(slot, row, 1, false, example);
}

void BatchRing::write_stacked(int64_t slot, int64_t row, int64_t count, const Example& stacked) {
  copy(slot, row, count, true, stacked);
}

void BatchRing::copy(int64_t slot, int64_t row, int64_t count, bool stacked,
                     const Example& example) {
  const auto unknown = [](const std::string& name) {
    fail_batch(fmt::format("feature '{}' is not in other examples: remove it with drop('{}')", name,
                           name));
  };
  auto given = example.begin();  // sorted by name, like features_
  for (const Feature& feature : features_) {
    if (given != example.end() && given->first < feature.name) unknown(given->first);
    if (given == example.end() || given->first != feature.name || !given->second.defined()) {
      fail_batch(fmt::format("feature '{}' is missing, but other examples have it", feature.name));
    }
    const at::Tensor& value = given->second;
    ++given;
    if (value.scalar_type() != feature.dtype) {
      fail_batch(fmt::format("feature '{}' is {}, but {} in other examples", feature.name,
                             dtype_name(value.scalar_type()), dtype_name(feature.dtype)));
    }
    const bool has_count = stacked && value.dim() > 0 && value.size(0) == count;
    const at::IntArrayRef shape = has_count ? value.sizes().slice(1) : value.sizes();
    if (has_count != stacked || shape != at::IntArrayRef(feature.shape)) {
      fail_batch(fmt::format("feature '{}' has shape {}, but {} in other examples: {}",
                             feature.name, shape_text(shape), shape_text(feature.shape),
                             remedy(feature, value)));
    }
    char* to = feature.base[slot] + row * feature.row_bytes;
    if (value.is_contiguous()) {
      std::memcpy(to, value.const_data_ptr(), count * feature.row_bytes);
    } else {
      at::from_blob(to, value.sizes(), at::TensorOptions(feature.dtype)).copy_(value);
    }
  }
  if (given != example.end()) unknown(given->first);
}

// Returns the advice for a feature whose shape differs between examples.
std::string BatchRing::remedy(const Feature& feature, const at::Tensor& value) const {
  const bool bytes = feature.dtype == at::kByte && feature.shape.size() == 1;
  if (feature.name == "image" && !bytes)
    return "add an op such as resize or random_crop to pp that makes all shapes equal";
  std::string kept;
  for (const Feature& other : features_) {
    if (other.name != feature.name)
      kept += fmt::format("{}'{}'", kept.empty() ? "" : ", ", other.name);
  }
  const bool encoded = bytes && (feature.name == "image" || is_encoded(value));
  return fmt::format("add {} to pp, or remove the feature with drop('{}'){}",
                     encoded ? "decode" : "pad_to_shape", feature.name,
                     kept.empty() ? "" : fmt::format(" or keep({})", kept));
}

void BatchRing::mark(int64_t slot, int64_t row, int64_t id) {
  for (const Feature& feature : mask_and_id_) {
    char* const base = feature.base[slot];
    if (feature.dtype == at::kBool) {
      reinterpret_cast<bool*>(base)[row] = true;
    } else {
      reinterpret_cast<int64_t*>(base)[row] = id;
    }
  }
}

void BatchRing::clear(int64_t slot, int64_t row, int64_t count) {
  for (const auto* features : {&features_, &mask_and_id_}) {
    for (const Feature& feature : *features) {
      std::memset(feature.base[slot] + row * feature.row_bytes, 0, count * feature.row_bytes);
    }
  }
}

}  // namespace bv
