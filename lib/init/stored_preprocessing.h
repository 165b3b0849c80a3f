// How images were preprocessed for weights of timm or Hugging Face, as far as a file next to the
// weights states it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/init/value_scaling.h"

namespace bv {

struct StoredPreprocessing {
  std::optional<ValueScaling> scaling;  // nullopt: no file states it
  // The side of timm's central crop in an evaluation, as a fraction of the resized image's shorter
  // side. 0: no file states it.
  double crop_share = 0;
  std::string resize_method;  // of the op resize_small before that crop; "": not stated
};

// Reads timm's config.json (pretrained_cfg), or else the preprocessor_config.json of Hugging Face,
// next to the weights at `path` (json_beside()). `channels`: of the model's images. Values that
// make no sense count as not stated. Throws Error(Exit::usage) if there are no such weights, or if
// one of these files cannot be read.
StoredPreprocessing stored_preprocessing(const std::string& path, int64_t channels);

}  // namespace bv
