// Recipe's code that looks at the values of a few images.

#include <algorithm>

#include "lib/train/recipe.h"
#include "lib/train/recipe_reading.h"

namespace bv {

// Finds the value range of a few training images after preprocessing.
void Recipe::look_at_images() {
  if (data_env_.synthetic) return;
  for (int64_t k = 0; k < std::min(kImagesToLookAt, data->size()); ++k) {
    try {
      at::Tensor image = data->compute(data->pick(k, seed, /*shuffled=*/true), seed, k).at("image");
      if (image.scalar_type() == at::kByte && image_normalization)
        image = normalize(image, *image_normalization);
      const std::optional<ValueSpan> span = value_span(image);
      if (span) image_values = image_values ? join(*image_values, *span) : span;
    } catch (const Error&) {
      // The loader reports examples that cannot be read.
    }
  }
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
