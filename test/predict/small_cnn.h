// A small CNN for tests of predictions.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/ckpt/tensors.h"
#include "lib/config/load_config.h"
#include "lib/model/init.h"
#include "lib/model/model.h"

namespace bv::test {

// Returns the weights of the model cnn with `widths: [4]`, for 8x8 grey images.
inline NamedTensors small_cnn(int64_t classes = 2) {
  const auto model = Model::Registry::make("cnn", parse_config("{widths: [4]}", "m"), Place(),
                                           ModelEnv{classes, 8, 8, 1});
  init_parameters(*model, 1, std::nullopt);
  NamedTensors weights;
  for (const auto& [path, value] : named_parameters(*model))
    weights[path] = value.detach().contiguous();
  return weights;
}

}  // namespace bv::test
