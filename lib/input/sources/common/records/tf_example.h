// tf.train.Example, the records of TensorFlow's data sets (tensorflow/core/example/example.proto):
// a map from names to lists of byte strings, of float32 numbers or of int64 numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace bv {

// One feature of an Example. A view: it must not outlive the serialized bytes.
class TfFeature {
 public:
  enum class Kind { none, bytes, floats, integers };

  TfFeature() = default;
  // `serialized` is a message Feature. Throws Error::bare(Exit::data).
  explicit TfFeature(std::span<const uint8_t> serialized);

  Kind kind() const { return kind_; }  // none: the feature has no value at all
  // The values of a feature of that kind, in order; nothing for one of kind none. Throw
  // Error::bare(Exit::data) if the feature is malformed or of another kind, or if it has more than
  // 2^20 byte strings.
  std::vector<std::span<const uint8_t>> bytes() const;
  at::Tensor floats() const;    // (values,) float32
  at::Tensor integers() const;  // (values,) int64

 private:
  void expect(Kind kind) const;

  Kind kind_ = Kind::none;
  std::span<const uint8_t> list_;  // a message BytesList, FloatList or Int64List
};

// Returns byte strings as (strings, longest) uint8 with zeros after the shorter ones. Throws
// Error::bare(Exit::data) if that takes more than 64 MiB.
at::Tensor texts_of(const std::vector<std::span<const uint8_t>>& values);
// Returns "byte strings", "float32 numbers", "integers" or "nothing".
std::string_view kind_text(TfFeature::Kind kind);

// The features of an Example by name. A view, like TfFeature.
class TfExample {
 public:
  // Throws Error::bare(Exit::data) if the bytes are not an Example, or one of more than 100,000
  // features.
  explicit TfExample(std::span<const uint8_t> serialized);

  // Returns nullptr if there is no such feature.
  const TfFeature* find(std::string_view name) const;
  // All features, sorted by name.
  const std::vector<std::pair<std::string_view, TfFeature>>& features() const { return features_; }

 private:
  std::vector<std::pair<std::string_view, TfFeature>> features_;
};

}  // namespace bv
