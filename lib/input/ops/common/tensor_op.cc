#include "lib/input/ops/common/tensor_op.h"

#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {

void TensorOp::apply(Example& example, Rng& rng) const {
  example[keys_.out] = map(require_tensor(example, keys_.in, name_), false, {&rng, 1});
}

void TensorOp::apply_batch(Example& batch, std::span<Rng> rngs) const {
  batch[keys_.out] = map(require_tensor(batch, keys_.in, name_), true, rngs);
}

void TensorOp::check_result(at::IntArrayRef shape, size_t bytes_per_value) const {
  auto bytes = static_cast<double>(bytes_per_value);
  for (const int64_t side : shape) bytes *= static_cast<double>(side);
  if (bytes <= static_cast<double>(limits::kFeatureBytes)) return;
  throw misuse(
      fmt::format("would take more than {} in each example: shape {}, {} per value",
                  human_bytes(static_cast<double>(limits::kFeatureBytes)), shape_text(shape),
                  bytes_per_value == 1 ? "1 byte" : fmt::format("{} bytes", bytes_per_value)));
}

Error TensorOp::misuse(std::string_view why) const {
  return Error::bare(Exit::usage, fmt::format("{}: '{}' {}", name_, keys_.in, why));
}

Error TensorOp::bad_example(std::string_view why) const {
  return Error::bare(Exit::data, fmt::format("{}: {}", name_, why));
}

LabelError TensorOp::bad_label(int64_t label, int64_t classes) const {
  return {name_, keys_.in, label, classes};
}

}  // namespace bv
