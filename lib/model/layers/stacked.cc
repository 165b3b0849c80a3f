#include "lib/model/layers/stacked.h"

namespace bv {

at::Tensor add_stacked(Module& owner, int64_t layers, const std::string& name,
                       std::vector<int64_t> shape, Init init, std::vector<int64_t> physical) {
  if (layers > 0) {
    shape.insert(shape.begin(), layers);
    init = stacked(std::move(init));
    if (!physical.empty()) {
      for (int64_t& dimension : physical) ++dimension;
      physical.insert(physical.begin(), 0);
    }
  }
  at::Tensor parameter =
      owner.add_parameter(name, std::move(shape), std::move(init), std::move(physical));
  if (layers > 0) owner.note_stacked();
  return parameter;
}

}  // namespace bv
