// How the values of images are scaled for a model, and the op that does it.
#pragma once

#include <optional>
#include <string>

namespace bv {

// In a target, `least` is what the darkest value becomes, even if it is above `most`.
struct ValueBounds {
  double least = 0, most = 255;
  bool operator==(const ValueBounds&) const = default;
};

// At most one of the two is set. If neither is, the model takes values as they are.
struct ValueScaling {
  // The range to which the op value_range scales.
  std::optional<ValueBounds> target = ValueBounds{-1, 1};
  // A call of vgg_value_range or clip_value_range, which take values from 0 to 255; or "".
  std::string normalize;
};

// Returns the scaling by the last op of the pp string that scales 'image', whatever the values of
// its input. `origin` is for messages. Throws Error(Exit::usage) if the op is malformed.
ValueScaling scaling_in(const std::string& pp, const std::string& origin);

// Returns the call that scales `source` to `target`: "value_range(-1, 1)" for values from 0 to 255,
// otherwise "value_range(-1, 1, 0, 1)".
std::string value_range_call(const ValueBounds& target, const ValueBounds& source);

}  // namespace bv
