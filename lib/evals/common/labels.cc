#include "lib/evals/common/labels.h"

#include <string_view>

#include "lib/device/dtype_name.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const at::Tensor& need_feature(const Batch& batch, const std::string& key,
                               const std::string& evaluator, std::string_view hint) {
  const auto found = batch.find(key);
  if (found != batch.end()) return found->second;
  throw Error(Exit::usage, "",
              fmt::format("evaluator '{}': pp gives no '{}' (it gives {}); see {}", evaluator, key,
                          names_of(batch), hint));
}

}  // namespace

at::Tensor dense_labels(const Batch& batch, const std::string& key, const std::string& evaluator) {
  const at::Tensor& labels =
      need_feature(batch, key, evaluator, "onehot(..., key_result=\"labels\") and keep(...)");
  if (labels.dim() != 2) {
    throw Error(Exit::usage, "",
                fmt::format("evaluator '{}': '{}' is not dense; add onehot(num_classes) to pp_fn",
                            evaluator, key));
  }
  return labels.to(at::kFloat);
}

at::Tensor class_labels(const Batch& batch, const std::string& key, const std::string& evaluator) {
  const at::Tensor& labels = need_feature(batch, key, evaluator, "keep(\"image\", \"label\")");
  if (labels.dim() != 1 || !at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)) {
    throw Error(
        Exit::usage, "",
        fmt::format("evaluator '{}': '{}' is not one class per example, but {} {}", evaluator, key,
                    dtype_name(labels.scalar_type()), shape_text(labels.sizes())));
  }
  return labels.to(at::kLong);
}

}  // namespace bv
