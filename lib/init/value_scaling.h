// How pixel values are scaled for a model, and the op that does it.
#pragma once

#include <optional>
#include <string>

namespace bv {

struct SampledImages;

// In a target, `least` is the result for the darkest value. It may be greater than `most`.
struct ValueBounds {
  double least = 0, most = 255;
  bool operator==(const ValueBounds&) const = default;
};

// Returns the probable range of the data's values, given those of a sample.
ValueBounds range_of_data(const SampledImages& images);

struct ValueScaling {
  // The range to which value_range scales the darkest and the brightest value; nullopt if the model
  // takes unscaled values.
  std::optional<ValueBounds> target = ValueBounds{-1, 1};
  // A call of vgg_value_range or clip_value_range, which comes after that; or "".
  std::string normalize;
};

// Returns the combined effect of the ops in a pp string that scale 'image'. The range of the values
// before the first op does not matter. `origin` is for messages. Throws Error(Exit::usage) if an op
// is malformed, or if no ValueScaling describes the ops.
ValueScaling scaling_in(const std::string& pp, const std::string& origin);

// Returns the call that scales `source` to `target`: "value_range(-1, 1)" for values from 0 to 255,
// otherwise "value_range(-1, 1, 0, 1)".
std::string value_range_call(const ValueBounds& target, const ValueBounds& source);

}  // namespace bv
