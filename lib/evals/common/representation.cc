#include "lib/evals/common/representation.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "lib/evals/common/collected.h"
#include "lib/evals/common/labels.h"
#include "lib/evals/common/ranks.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr const char* kMask = "_mask";

// Returns which rows count: (n) bool.
at::Tensor mask_of(const Batch& batch, const std::string& key, const std::string& evaluator) {
  const at::Tensor& real = batch.at(kMask);
  if (key == kMask) return real;
  const auto found = batch.find(key);
  if (found == batch.end() || found->second.dim() != 1) {
    throw Error(Exit::usage, "",
                fmt::format("evaluator '{}': mask_key '{}' is not a feature with one value per "
                            "example",
                            evaluator, key));
  }
  return real.logical_and(found->second.to(at::kBool));
}

// Returns "3 channels (float32)"; "" if the batch has no images of a known form.
std::string form_of(const Batch& batch) {
  const auto image = batch.find("image");
  if (image == batch.end() || image->second.dim() != 4) return "";
  return fmt::format("{} ({})", counted(image->second.size(3), "channel"),
                     image->second.scalar_type() == at::kByte ? "8-bit" : "float32");
}

}  // namespace

void require_same_form(const Batch& one, const Batch& other, const std::string& evaluator) {
  const std::string form = form_of(one), other_form = form_of(other);
  if (form == other_form || form.empty() || other_form.empty()) return;
  throw Error(Exit::usage, "",
              fmt::format("evaluator '{}': its data sets give different images: {} and {}; change "
                          "the preprocessing so that they agree",
                          evaluator, form, other_form));
}

RepresentationKeys::RepresentationKeys(const Config& config, const std::string& evaluator)
    : layer(config.get("representation_layer", "")),
      label_key(config.get("label_key", "label")),
      mask_key(config.get("mask_key", kMask)),
      evaluator(evaluator) {}

std::vector<std::string> RepresentationKeys::activations() const {
  return layer.empty() ? std::vector<std::string>() : std::vector<std::string>{layer};
}

std::string RepresentationKeys::output() const { return layer.empty() ? kLogitsOutput : ""; }

void RepresentationKeys::check_batch(const Batch& batch) const {
  class_labels(batch, label_key, evaluator);
  mask_of(batch, mask_key, evaluator);
}

at::Tensor RepresentationKeys::vectors_in(const Outputs& outputs) const {
  at::Tensor vectors = outputs.at(layer.empty() ? kLogitsOutput : layer);
  if (vectors.dim() != 2) {
    throw Error(Exit::usage, "",
                fmt::format("evaluator '{}': representation_layer '{}' has shape {}, not one "
                            "vector per example",
                            evaluator, layer, shape_text(vectors.sizes())));
  }
  return vectors;
}

LabelledFeatures RepresentationKeys::represent(EvalInput& input, const EvalContext& context) const {
  LabelledFeatures all;
  std::vector<at::Tensor> ids;
  int64_t rows = 0, bad = kNoPlace;
  input.for_each(context, [&](const Batch& batch) {
    const at::Tensor features = vectors_in(context.predict(batch, activations()));
    const at::Tensor keep = mask_of(batch, mask_key, evaluator).nonzero().squeeze(1);
    const at::Tensor labels = class_labels(batch, label_key, evaluator);
    if (!all.features.defined()) {
      all.features = at::empty({input.examples(), features.size(1)}, at::kFloat);
      all.labels = at::empty({input.examples()}, at::kLong);
    }
    const at::Tensor own = features.index_select(0, keep);
    all.features.narrow(0, rows, keep.numel()).copy_(own);
    all.labels.narrow(0, rows, keep.numel()).copy_(labels.index_select(0, keep));
    ids.push_back(batch.at("_id").index_select(0, keep));
    if (bad == kNoPlace) bad = first_bad(own, ids.back());
    rows += keep.numel();
  });
  check(all.features.defined(), "evaluator '{}' saw no batch", evaluator);
  Group& group = *context.group;
  refuse_bad(bad, input, group, evaluator);
  const at::Tensor counted = at::full({1}, rows, at::kLong);
  sum_over_ranks(group, counted);
  if (counted.item<int64_t>() == 0) {
    const std::string why = mask_key == kMask ? "" : fmt::format(" (mask_key '{}')", mask_key);
    throw Error(
        Exit::usage, "",
        fmt::format("evaluator '{}': no example of {} counts{}", evaluator, input.name(), why));
  }
  const at::Tensor places = at::cat(ids);
  return {gather_rows(group, all.features.narrow(0, 0, rows), places),
          gather_rows(group, all.labels.narrow(0, 0, rows), places)};
}

int64_t count_classes(const Dataset& data, const at::Tensor& labels, const std::string& evaluator) {
  auto classes = static_cast<int64_t>(data.class_names().size());
  if (labels.numel() == 0) return classes;
  const auto least = labels.min().item<int64_t>(), greatest = labels.max().item<int64_t>();
  if (least < 0 || greatest >= limits::kEvaluatedClasses) {
    throw Error(Exit::data, "",
                fmt::format("evaluator '{}': label {} is not a class number", evaluator,
                            least < 0 ? least : greatest));
  }
  return std::max(classes, greatest + 1);
}

}  // namespace bv
