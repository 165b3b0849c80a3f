#include "lib/input/sources/common/label_order.h"

#include <cstdint>
#include <set>

#include "lib/input/source.h"

namespace bv {

bool in_order_of_classes(const at::Tensor& labels) {
  if (!labels.defined()) return false;
  const int64_t* const values = labels.const_data_ptr<int64_t>();
  std::set<int64_t> seen;
  int64_t last = Source::kNoLabel;
  bool several_examples = false;
  for (int64_t i = 0; i < labels.numel(); ++i) {
    if (values[i] == Source::kNoLabel) continue;
    if (values[i] == last)
      several_examples = true;
    else if (!seen.insert(values[i]).second)
      return false;
    last = values[i];
  }
  return seen.size() > 1 && several_examples;
}

}  // namespace bv
