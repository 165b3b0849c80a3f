// NormalizeOp: base class of value_range, vgg_value_range and clip_value_range.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/config/key_table.h"
#include "lib/input/image/normalize.h"
#include "lib/input/ops/common/tensor_op.h"

namespace bv {

// The rows of `mean` and `std` with their defaults.
constexpr std::array<KeyText, 2> mean_std_key_texts(std::string_view mean, std::string_view std) {
  return {{
      {"mean", "list of float", mean,
       "Mean to subtract, on the scale 0 to 255: a list with one number per channel or with one "
       "for all."},
      {"std", "list of float", std,
       "Standard deviation to divide by, on the scale 0 to 255: a list as long as mean. No number "
       "may be 0."},
  }};
}

// Applies normalization_, which the constructor of the derived class fills in.
class NormalizeOp : public TensorOp {
 public:
  std::optional<Normalization> normalizes(std::string_view key) const final {
    return keys_.in == key && keys_.out == key ? std::optional(normalization_) : std::nullopt;
  }

 protected:
  using TensorOp::TensorOp;
  // Returns args[key], a number or a non-empty list with one number per channel.
  static std::vector<double> numbers(const Config& args, std::string_view key,
                                     std::vector<double> fallback);
  // Reads the arguments `mean` and `std`, with these defaults, and the keys. Sets normalization_ to
  // (x - mean) / std.
  void read_mean_std(const Config& args, const std::vector<double>& mean,
                     const std::vector<double>& std);
  Normalization normalization_;

 private:
  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng> rngs) const final;
};

}  // namespace bv
