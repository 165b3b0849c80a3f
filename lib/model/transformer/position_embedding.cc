#include "lib/model/transformer/position_embedding.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cmath>

#include "lib/model/init.h"

namespace bv {

at::Tensor PositionEmbedding::on(const at::TensorOptions& like) const {
  return learned.defined() ? learned.to(like) : table.on(like);
}

PositionEmbedding add_position_embedding(Module& owner, const Config& config, int64_t h, int64_t w,
                                         int64_t width) {
  if (config.word("posemb", "learn", {"learn", "sincos2d"}) == "learn") {
    return {.learned = owner.add_parameter("pos_embedding", {1, h * w, width},
                                           normal(1.0 / std::sqrt(static_cast<double>(width)))),
            .table = {}};
  }
  if (width % 4 != 0 || width < 8) {
    config.fail("posemb",
                fmt::format("sincos2d needs a width that is a multiple of 4 and at least 8, got {}",
                            width));
  }
  return {.learned = {}, .table = Constant(sincos2d(h, w, width))};
}

at::Tensor sincos2d(int64_t h, int64_t w, int64_t features) {
  const at::Tensor table = at::empty({1, h * w, features}, at::kFloat);
  const int64_t q = features / 4;
  float* out = table.data_ptr<float>();
  for (int64_t token = 0; token < h * w; ++token, out += features) {
    const auto y = static_cast<double>(token / w), x = static_cast<double>(token % w);
    for (int64_t i = 0; i < q; ++i) {
      const double omega = std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(q - 1));
      out[i] = static_cast<float>(std::sin(x * omega));
      out[q + i] = static_cast<float>(std::cos(x * omega));
      out[2 * q + i] = static_cast<float>(std::sin(y * omega));
      out[3 * q + i] = static_cast<float>(std::cos(y * omega));
    }
  }
  return table;
}

}  // namespace bv
