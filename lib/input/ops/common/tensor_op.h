// TensorOp: base class of ops that make one tensor from one tensor.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/input/label_error.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"

namespace bv {

// Replaces the tensor keys_.out by map(the tensor keys_.in). The same code serves the single and
// the batched form.
class TensorOp : public Op {
 public:
  void apply(Example& example, Rng& rng) const final;
  bool has_batched() const override { return true; }
  bool leaves(std::string_view key) const final { return keys_.in != key && keys_.out != key; }
  std::optional<std::string> makes_from(std::string_view key) const final {
    return keys_.out == key ? std::optional(keys_.in) : std::nullopt;
  }
  void apply_batch(Example& batch, std::span<Rng> rngs) const final;

 protected:
  explicit TensorOp(const char* name) : name_(name) {}

  // Returns the result for x: the tensor of one example, or if `batched` a stack of them with the
  // leading dimension rngs.size(). Must not write into x, which may be the source's own memory.
  virtual at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng> rngs) const = 0;

  // Throws misuse() if a result of `shape`, which has no batch dimension, would take more memory
  // than limits::kFeatureBytes. Ops that make a feature larger call it before they allocate it.
  void check_result(at::IntArrayRef shape, size_t bytes_per_value) const;

  // Returns the error of an op that can't work on this kind of data: "resize: 'image' <why>".
  Error misuse(std::string_view why) const;
  // Returns the error of an example that is at fault: "resize: <why>".
  Error bad_example(std::string_view why) const;
  // Returns the error of a number in keys_.in that is none of `classes` class numbers.
  LabelError bad_label(int64_t label, int64_t classes) const;

  const char* const name_;
  InOutKeys keys_;  // constructors assign it last: `keys_ = InOutKeys(args)`
};

}  // namespace bv
