// Recipe's code that looks at the values of a few images.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "lib/train/recipe.h"
#include "lib/train/recipe_reading.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Extends `span` to the values of the feature `labels`, if the example has it.
void add_labels(const Example& example, std::optional<ValueSpan>& span) {
  const auto labels = example.find("labels");
  if (labels == example.end()) return;
  if (const auto more = value_span(labels->second)) span = span ? join(*span, *more) : *more;
}

// Says what is wrong with `labels` of these values for classes; "" if nothing is.
std::string label_problem(const std::optional<ValueSpan>& span) {
  constexpr double kRounding = 1e-3;
  if (!span || (span->least >= -kRounding && span->greatest <= 1 + kRounding)) return "";
  return fmt::format(
      "gives 'labels' with values from {}, but those of classes are within 0 and 1; "
      "to predict numbers, use task: regress",
      span->text());
}

}  // namespace

// Finds the value range of a few training images after preprocessing, and warns if it is unusual.
// Also warns if labels of classes have an unusual range, and if a random crop has no effect.
void Recipe::look_at_images() {
  if (data_env_.synthetic) return;
  std::vector<std::vector<ValueSpan>> parts(inputs_.size());  // the spans of the channels
  std::vector<std::optional<ValueSpan>> labels(inputs_.size());
  std::vector<int64_t> looked_at(inputs_.size());
  for (int64_t k = 0; k < std::min(kImagesToLookAt, data->size()); ++k) {
    try {
      const TrainingData::Pick pick = data->pick(k, seed, /*shuffled=*/true);
      const Example example = data->compute(pick, seed, k);
      at::Tensor image = example.at("image");
      if (image.scalar_type() == at::kByte && image_normalization)
        image = normalize(image, *image_normalization);
      const std::vector<ValueSpan> spans = channel_spans(image);
      std::vector<ValueSpan>& of_part = parts.at(pick.part);
      ++looked_at.at(pick.part);
      add_labels(example, labels.at(pick.part));
      if (of_part.empty()) of_part = spans;
      for (size_t c = 0; c < std::min(spans.size(), of_part.size()); ++c) {
        of_part[c] = join(of_part[c], spans[c]);
        image_values = image_values ? join(*image_values, spans[c]) : spans[c];
      }
    } catch (const Error&) {
      // The loader reports examples that cannot be read.
    }
  }
  constexpr int64_t kFewest = 4;  // one image may be black
  // With multilabel the task refuses such labels.
  const bool checks_labels =
      !data_env_.labels_are_numbers &&
      !(config.is_map("task_kw") && config.section("task_kw").is_text("multilabel", "true"));
  for (size_t part = 0; part < parts.size(); ++part) {
    if (const std::string problem = label_problem(labels[part]); checks_labels && !problem.empty())
      inputs_[part].keys.warn("pp", problem);
    if (looked_at[part] < std::min(kFewest, inputs_[part].training.data->size())) continue;
    if (const std::string problem = scale_problem(parts[part]); !problem.empty())
      inputs_[part].keys.warn("pp", problem);
    for (const std::string& op : inputs_[part].training.pp->ops_without_choice()) {
      inputs_[part].keys.warn(
          "pp", fmt::format("{} has no effect on the first {} images, which have its size: put "
                            "pad_to_shape or a resize to a larger size before it",
                            op, looked_at[part]));
    }
  }
}

// Warns if arrays look like images with the channels first, which a model takes for images of one
// or three rows. `first` is the first example after pp, which may have given them another shape.
void Recipe::check_layout(const InputPart& part, const Example& first) const {
  at::Tensor image;
  try {
    const Example raw = part.training.data->read(0);
    if (const auto found = raw.find("image"); found != raw.end()) image = found->second;
  } catch (const Error&) {
    return;  // the loader reports examples that cannot be read
  }
  if (!image.defined() || image.dim() != 3 || first.at("image").size(2) != image.size(2)) return;
  const int64_t channels = image.size(0), height = image.size(1), width = image.size(2);
  // Other shapes may be those of sequences of vectors.
  const bool image_like = height == width || (channels == 3 && height > 4);
  if (!(channels == 1 || channels == 3 || channels == 4) || width <= 4 || !image_like) return;
  part.keys.warn(
      "data", fmt::format("has images of the shape {}, which looks like (channels, height, width): "
                          "store them as (height, width, channels), by transpose(0, 2, 3, 1)",
                          shape_text(image.sizes())));
}

// Returns whether an evaluator's images may differ from the training images in their scale, and not
// only in brightness.
bool Recipe::may_differ_in_scale(const Config& keys, const ValueSpan& span) const {
  if (!far_apart(span, *image_values)) return false;
  if (!keys.has("pp_fn")) return true;
  const Pipeline pp(keys, "pp_fn");
  const std::vector<Normalization> how = pp.normalizations();
  bool decoded = pp.decodes().has_value();  // then values are from 0 to 255 at first
  for (const InputPart& part : inputs_) {
    if (how.empty() || part.training.pp->normalizations() != how) return true;
    decoded &= part.training.pp->decodes().has_value();
  }
  return !decoded && of_other_scale(span, *image_values);
}

// Warns if an evaluator's images are scaled differently from the training images.
void Recipe::check_values(const Config& keys, const at::Tensor& images) const {
  const std::optional<ValueSpan> span = value_span(images);
  if (!span || !image_values || !may_differ_in_scale(keys, *span)) return;
  keys.warn("pp_fn", fmt::format("makes images with values from {}, but those of input.pp are from "
                                 "{}: scale the values of both in the same way",
                                 span->text(), image_values->text()));
}

}  // namespace bv
