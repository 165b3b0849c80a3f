#include "lib/input/sources/common/label_order.h"

#include <algorithm>

namespace bv {

bool in_order_of_classes(const at::Tensor& labels) {
  if (!labels.defined() || labels.numel() == 0) return false;
  const int64_t* const begin = labels.const_data_ptr<int64_t>();
  const int64_t* const end = begin + labels.numel();
  return std::is_sorted(begin, end) && begin[0] != end[-1] && std::adjacent_find(begin, end) != end;
}

}  // namespace bv
