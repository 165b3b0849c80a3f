#include "lib/model/stochastic_depth.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cmath>

#include "lib/util/rng.h"

namespace bv {

at::Tensor stochastic_depth(const at::Tensor& y, double rate, Pass& pass) {
  if (!pass.train || rate == 0) return y;
  const auto count = static_cast<uint32_t>(pass.next_dropout++);
  if (y.is_meta()) return at::empty_like(y);
  std::vector<int64_t> shape(y.dim(), 1);
  shape[0] = y.size(0);
  const at::Tensor mask = at::empty(shape, at::TensorOptions(at::kFloat).device(at::kCPU));
  float* out = mask.data_ptr<float>();
  // An example is dropped if its 32-bit random number is below this.
  const auto threshold = static_cast<uint64_t>(std::llround(rate * 0x1p32));
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(pass.seed),
                                       static_cast<uint32_t>(pass.seed >> 32)};
  const auto purpose = static_cast<uint32_t>(Purpose::dropout) | count << 8;
  const auto step = static_cast<uint64_t>(pass.step);
  for (int64_t row = 0; row < y.size(0); ++row) {
    const int64_t i = pass.first_example + row;
    const auto bits = philox({static_cast<uint32_t>(i / 4), purpose, static_cast<uint32_t>(step),
                              static_cast<uint32_t>(step >> 32)},
                             key);
    out[row] = bits[i % 4] < threshold ? 0.0f : 1.0f;
  }
  return y * mask.to(y.options());
}

}  // namespace bv
