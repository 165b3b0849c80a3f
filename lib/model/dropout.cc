#include "lib/model/dropout.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <cmath>

#include "lib/device/cuda.h"
#include "lib/model/dropout_mask.h"
#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {

at::Tensor random_mask(at::IntArrayRef shape, double rate, double kept,
                       const at::TensorOptions& options, Pass& pass) {
  const int call = pass.next_dropout++;
  const at::Tensor mask = at::empty(shape, options.dtype(at::kFloat));
  const int64_t n = mask.numel();
  // Elements are numbered over the global batch; the mask may cover one rank's part of it.
  const int64_t offset = n == 0 ? 0 : pass.first_example * (n / shape[0]), end_of = offset + n;
  check(end_of <= DropoutMask::kMostElements, "a random mask of {} elements", end_of);
  const int64_t* const step =
      pass.device_step.defined() ? pass.device_step.const_data_ptr<int64_t>() : nullptr;
  DropoutMask draw = {
      .offset = offset,
      .end = end_of,
      .threshold = static_cast<uint64_t>(std::llround(rate * 0x1p32)),
      .kept = static_cast<float>(kept),
      .call = static_cast<uint32_t>(Purpose::dropout) | static_cast<uint32_t>(call) << 8,
      .step = static_cast<uint64_t>(pass.step),
      .key = {static_cast<uint32_t>(pass.seed), static_cast<uint32_t>(pass.seed >> 32)}};
  if (mask.is_cpu()) {
    if (step) draw.step = static_cast<uint64_t>(*step);
    float* out = mask.data_ptr<float>();
    at::parallel_for(draw.first_block(), draw.last_block(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) draw.fill(block, out);
    });
  } else if (!mask.is_meta()) {
    static auto* const fill = cuda_function<FillDropoutMask>("bvtrain_cuda_dropout");
    fill(draw, step, mask.data_ptr<float>(), cuda_stream(mask.device()));
  }
  return mask.to(options.dtype());
}

at::Tensor dropout(const at::Tensor& x, double rate, Pass& pass) {
  if (!pass.train || rate == 0) return x;
  return x * random_mask(x.sizes(), rate, 1.0 / (1.0 - rate), x.options(), pass);
}

}  // namespace bv
