// The op setdefault. Draws no random numbers. A string is stored as described in
// common/text_tensor.h.
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/op_args.h"
#include "lib/input/ops/common/text_tensor.h"

namespace bv {
namespace {

const KeyTable setdefault_keys(
    "pp: setdefault",
    {"Sets a feature that is missing or empty, and leaves one that has values. A "
     "missing feature becomes one int64, float32 or bool value, or a string. An "
     "empty one keeps its type, and its dimensions of size 0 get size 1.",
     "setdefault('label', -1)", "pp/ops_general.py get_setdefault"},
    {{"key", "string", "required", "The feature to set."},
     {"value", "bool | int | float | string", "required",
      "Value of the feature: a number, a quoted string, True or False. It must fit "
      "the type of an empty feature.",
      "-1"}});

class Setdefault : public Op {
 public:
  explicit Setdefault(const Config& args)
      : key_(args.get<std::string>("key")), value_(args.get<Scalar>("value")) {}

  void apply(Example& example, Rng&) const override { set(example, std::nullopt); }
  bool leaves(std::string_view key) const override { return key_ != key; }
  bool has_batched() const override { return true; }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override {
    set(batch, std::ssize(rngs));
  }

 private:
  // count: the number of stacked examples; nullopt for a single example.
  void set(Example& example, std::optional<int64_t> count) const {
    const auto found = example.find(key_);
    if (found != example.end() && found->second.numel() > 0) return;
    const bool missing = found == example.end();
    std::vector<int64_t> shape;  // of one example
    if (!missing) {
      const at::IntArrayRef sides = found->second.sizes().slice(count ? 1 : 0);
      shape.assign(sides.begin(), sides.end());
    }
    at::Tensor value = missing ? default_value() : value_like(found->second.scalar_type(), shape);
    if (count) {
      std::vector<int64_t> stacked = value.sizes().vec();
      stacked.insert(stacked.begin(), *count);
      value = value.expand(stacked).contiguous();
    }
    example[key_] = value;
  }

  at::Tensor default_value() const {
    if (const auto* text = std::get_if<std::string>(&value_)) return text_tensor(*text);
    const at::ScalarType dtype = std::holds_alternative<bool>(value_)      ? at::kBool
                                 : std::holds_alternative<int64_t>(value_) ? at::kLong
                                                                           : at::kFloat;
    return at::full({}, number(), dtype);
  }

  // Returns the value that replaces an empty tensor of this dtype and shape.
  at::Tensor value_like(at::ScalarType dtype, std::vector<int64_t> shape) const {
    const bool text = std::holds_alternative<std::string>(value_);
    if (text && dtype == at::kByte && shape.size() == 1) return default_value();
    if (text || !fits(dtype)) {
      throw Error::bare(Exit::usage,
                        fmt::format("setdefault: '{}' is empty and of type {}, which can't hold {}",
                                    key_, dtype_name(dtype),
                                    text ? "a string" : fmt::format("{}", number().toDouble())));
    }
    for (int64_t& side : shape) side = std::max<int64_t>(side, 1);
    return at::full(shape, number(), dtype);
  }

  bool fits(at::ScalarType dtype) const {
    const double value = number().toDouble();
    if (dtype == at::kHalf) return std::abs(value) <= 65504;
    if (c10::isFloatingType(dtype)) return true;
    if (dtype == at::kBool) return std::holds_alternative<bool>(value_);
    if (!c10::isIntegralType(dtype, false) || std::holds_alternative<double>(value_)) return false;
    if (dtype == at::kByte) return value >= 0 && value <= 255;
    const double most = std::exp2(8 * static_cast<double>(c10::elementSize(dtype)) - 1);
    return dtype == at::kLong || (value >= -most && value < most);
  }

  at::Scalar number() const {
    if (const auto* flag = std::get_if<bool>(&value_)) return *flag;
    if (const auto* whole = std::get_if<int64_t>(&value_)) return *whole;
    return std::get<double>(value_);
  }

  const std::string key_;
  const Scalar value_;
};

const Register<Op, Setdefault> registered_setdefault("setdefault");

}  // namespace
}  // namespace bv
