// What clip_i1k_label_names and i21k_label_names share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/input/ops/common/tensor_op.h"

namespace bv {

// Class numbers (any integer type; one, or a list of them) to their names, as text (lib/input/
// text.h). Takes `label` and puts `labels` unless told otherwise.
class LabelNamesOp : public TensorOp {
 public:
  bool has_batched() const override { return false; }  // texts differ in length

 protected:
  // lines: the names in order, one a line. Kept by reference.
  LabelNamesOp(const char* name, std::string_view lines, const Config& args);

 private:
  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng> rngs) const final;
  std::vector<std::string_view> names_;
};

}  // namespace bv
