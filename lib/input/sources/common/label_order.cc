#include "lib/input/sources/common/label_order.h"

#include <cstdint>

#include "lib/input/source.h"

namespace bv {

bool in_order_of_classes(const at::Tensor& labels) {
  if (!labels.defined()) return false;
  const int64_t* const values = labels.const_data_ptr<int64_t>();
  int64_t last = Source::kNoLabel;
  bool several_classes = false, several_examples = false;
  for (int64_t i = 0; i < labels.numel(); ++i) {
    if (values[i] == Source::kNoLabel) continue;
    if (values[i] < last) return false;
    if (last != Source::kNoLabel) (values[i] == last ? several_examples : several_classes) = true;
    last = values[i];
  }
  return several_classes && several_examples;
}

}  // namespace bv
