// The CUDA kernels of ReLU and average pool, run on the CPU (test/cuda/emulation), and the
// operation on a GPU.
#include "lib/cuda/relu_avg_pool.cu"

#include "lib/model/kernels/relu_avg_pool.h"
#include "test/cuda/gpu_runs.h"
#include "test/support/guarded.h"

namespace bv {

using test::Guard;
using test::Guarded;
using test::kGpu;

namespace {

TEST_CASE("the kernels of ReLU and average pool stay within their buffers") {
  for (const Guard guard : {Guard::before, Guard::behind}) {
    for (const auto& [h, w] : {std::pair<int64_t, int64_t>{2, 2}, {5, 3}, {1, 4}, {14, 28}}) {
      constexpr int64_t kN = 2, kChannels = 16;
      INFO(h << " x " << w);
      const auto wide = static_cast<size_t>(kN * h * w * kChannels),
                 pooled = static_cast<size_t>(kN * (h / 2) * (w / 2) * kChannels);
      const Guarded<float> x(wide, 2, guard), y(pooled, -9, guard);
      const Guarded<uint8_t> alive(pooled, 0, guard);
      const ReluAvgPoolPass pass = {kN, h, w, kChannels, {x.data()}, {y.data()}, alive.data()};
      bvtrain_cuda_relu_avg_pool(pass, nullptr);
      CHECK(std::count(y.values().begin(), y.values().end(), 2.0F) == std::ssize(y.values()));
      bvtrain_cuda_relu_avg_pool_gradient(pass, nullptr);
      CHECK(std::count(x.values().begin(), x.values().end(), 0.5F) == 4 * std::ssize(y.values()));
    }
  }
}

TEST_CASE("ReLU and average pool on a device are those of LibTorch", "[gpu]") {
  if (!test::gpu()) return;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [h, w] : {std::pair<int64_t, int64_t>{28, 28}, {7, 5}, {2, 2}}) {
      INFO(type << ", " << h << " x " << w);
      const auto generator = at::detail::createCPUGenerator(1);
      const at::Tensor draw = at::randn({3, h, w, 32}, generator, at::kFloat);
      draw.view(-1)[0] = std::nan("");
      const at::Tensor image = draw.to(type).permute({0, 3, 1, 2});
      const at::Tensor grad = at::randn({3, 32, h / 2, w / 2}, generator, at::kFloat).to(type);
      const at::Tensor x = image.to(kGpu).requires_grad_(),
                       plain = image.to(at::kFloat).detach().requires_grad_();
      const at::Tensor y = relu_avg_pool(x), want = at::avg_pool2d(at::relu(plain), 2);
      y.backward(grad.to(kGpu));
      want.backward(grad.to(at::kFloat));
      const auto same = [&](const at::Tensor& a, const at::Tensor& b) {
        return at::allclose(a.detach().cpu().to(at::kFloat), b.detach(), 0,
                            type == at::kFloat ? 1e-6 : 1e-2, /*equal_nan=*/true);
      };
      CHECK(same(y, want));
      CHECK(same(x.grad(), plain.grad()));
    }
  }
}

}  // namespace
}  // namespace bv
