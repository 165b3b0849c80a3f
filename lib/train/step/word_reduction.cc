#include "lib/train/step/word_reduction.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace bv {

void WordReduction::begin(Group& group, const at::Tensor& loss) {
  values_ = at::empty({1 + std::ssize(word)}, at::kDouble);
  auto* const values = values_.mutable_data_ptr<double>();
  values[0] = loss.defined() ? *loss.const_data_ptr<double>() : 0;
  std::copy(word.begin(), word.end(), values + 1);
  pending_ = group.all_reduce_sum(values_, "control word");
}

void WordReduction::finish(const at::Tensor& loss) {
  pending_.wait();
  const auto* const values = values_.const_data_ptr<double>();
  std::copy(values + 1, values + 1 + word.size(), word.begin());
  if (loss.defined()) *loss.mutable_data_ptr<double>() = values[0];
}

}  // namespace bv
