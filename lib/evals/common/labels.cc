#include "lib/evals/common/labels.h"

#include <ATen/ops/zeros.h>

#include <string_view>

#include "lib/device/dtype_name.h"
#include "lib/evals/common/ranks.h"
#include "lib/report/log.h"
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
                fmt::format("evaluator '{}': '{}' does not have one number per class; add "
                            "onehot(num_classes) to pp_fn",
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

void refuse_one_class(int64_t classes, const std::string& key, const std::string& evaluator) {
  if (classes != 1) return;
  throw Error(Exit::usage, "",
              fmt::format("evaluator '{}': '{}' has only one class, so every prediction would be "
                          "right; use class_metrics with multilabel: true, which counts the images "
                          "without the class too",
                          evaluator, key));
}

void WithoutClassNote::after_pass(Group& group, int64_t count, int64_t examples,
                                  const std::string& evaluator) {
  if (counted_) return;
  counted_ = true;
  const at::Tensor all = at::zeros({1}, at::kLong).fill_(count);
  sum_over_ranks(group, all);
  const auto left_out = all.item<int64_t>();
  if (left_out == 0 || group.rank() != 0) return;
  log::info(
      "{} of the {} examples of evals.{} {} no class and {} not count; class_metrics with "
      "multilabel: true counts such examples",
      left_out, examples, evaluator, left_out == 1 ? "has" : "have", left_out == 1 ? "does" : "do");
}

}  // namespace bv
