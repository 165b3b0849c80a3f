#include "lib/model/dropout.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cmath>

#include "lib/device/cuda.h"
#include "lib/model/dropout_mask.h"
#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

// Returns a mask of 0 and 1 / (1 - rate), row-major, with the shape, dtype and device of x.
at::Tensor draw_mask(const at::Tensor& x, double rate, const Pass& pass, int count) {
  const at::Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kFloat));
  const int64_t n = mask.numel();
  // Elements are numbered in the whole batch; x may be one rank's part of it.
  const int64_t offset = n == 0 ? 0 : pass.first_example * (n / x.size(0)), end_of = offset + n;
  // The counter has 32 bits for blocks of 4 elements.
  check(end_of <= int64_t{1} << 34, "dropout of {} elements", end_of);
  const auto step = static_cast<uint64_t>(pass.step);
  const DropoutMask draw = {
      .offset = offset,
      .end = end_of,
      .threshold = static_cast<uint64_t>(std::llround(rate * 0x1p32)),
      .kept = static_cast<float>(1.0 / (1.0 - rate)),
      .counter = {static_cast<uint32_t>(Purpose::dropout) | static_cast<uint32_t>(count) << 8,
                  static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
      .key = {static_cast<uint32_t>(pass.seed), static_cast<uint32_t>(pass.seed >> 32)}};
  float* out = mask.data_ptr<float>();
  if (x.is_cpu()) {
    at::parallel_for(draw.first_block(), draw.last_block(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) draw.fill(block, out);
    });
  } else {
    static auto* const fill =
        reinterpret_cast<FillDropoutMask*>(cuda_symbol("bvtrain_cuda_dropout"));
    fill(draw, out, cuda_stream(x.device()));
  }
  return mask.to(x.scalar_type());
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double rate, Pass& pass) {
  if (!pass.train || rate == 0) return x;
  const int count = pass.next_dropout++;
  if (x.is_meta()) return x * at::empty_like(x);
  return x * draw_mask(x, rate, pass, count);
}

}  // namespace bv
