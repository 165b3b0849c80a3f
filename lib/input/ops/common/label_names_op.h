// LabelNamesOp: base class of clip_i1k_label_names and i21k_label_names.
#pragma once

#include <string_view>
#include <vector>

#include "lib/input/ops/common/tensor_op.h"

namespace bv {

inline constexpr auto kLabelNamesKeys = in_out_key_texts("= label", "= labels");

// Replaces class numbers (of any integer type; one number or a list) by their names, as text
// (text_tensor.h). Reads `label` and writes `labels` by default.
class LabelNamesOp : public TensorOp {
 public:
  bool has_batched() const override { return false; }  // names differ in length

 protected:
  // lines: the names in the order of the class numbers, one per line. The string must outlive the
  // op.
  LabelNamesOp(const char* name, std::string_view lines, const Config& args);

 private:
  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng> rngs) const final;
  std::vector<std::string_view> names_;
};

}  // namespace bv
