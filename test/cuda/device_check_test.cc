// Whether wrong device kernels are detected: lib/model/kernels/device/device_check.h.
#include "lib/model/kernels/device/device_check.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "lib/model/kernels/device/device_linear.h"
#include "test/cuda/gpu_runs.h"

namespace bv::test {
namespace {

Tensors square(const Tensors& all) { return {all[0] * all[0]}; }

// Checks a kernel under a new name, on a GPU if there is one.
bool is_right(const KernelCheck::Compute& fused) {
  static int asked = 0;
  const std::string name = "test " + std::to_string(++asked);
  return fused_kernel_is_right(name.c_str(), here(), [&](c10::Device device) {
    return KernelCheck{{check_numbers({5, 7}, 1, device, at::kBFloat16)}, fused, square};
  });
}

TEST_CASE("a fused kernel is used if its results and gradients are right") {
  CHECK(is_right(square));
  CHECK(is_right([](const Tensors& all) -> Tensors { return {all[0].square()}; }));
  CHECK_FALSE(is_right([](const Tensors& all) -> Tensors { return {all[0] * all[0] * 1.1}; }));
  // A wrong gradient, one number that is NaN, and results that are wrong only without gradients.
  CHECK_FALSE(is_right([](const Tensors& all) -> Tensors { return {all[0] * all[0].detach()}; }));
  CHECK_FALSE(is_right([](const Tensors& all) -> Tensors {
    const at::Tensor y = square(all)[0].clone();
    y.detach().view(-1)[3] = std::nan("");
    return {y};
  }));
  CHECK_FALSE(is_right([](const Tensors& all) -> Tensors {
    return {c10::GradMode::is_enabled() ? square(all)[0] : all[0]};
  }));
}

TEST_CASE("a fused kernel that fails is not used, but memory that runs out is no fault of it") {
  CHECK_FALSE(is_right([](const Tensors&) -> Tensors { throw std::runtime_error("no"); }));
  CHECK_FALSE(is_right([](const Tensors& all) -> Tensors { return {at::mm(all[0], all[0])}; }));
  CHECK_THROWS_AS(is_right([](const Tensors&) -> Tensors {
                    TORCH_CHECK_WITH(OutOfMemoryError, false, "full");
                    return {};
                  }),
                  c10::OutOfMemoryError);
  CHECK_THROWS_WITH(
      is_right([](const Tensors&) -> Tensors {
        throw std::runtime_error("CUDA: a product: CUBLAS_STATUS_ALLOC_FAILED: out of memory");
      }),
      "CUDA: a product: CUBLAS_STATUS_ALLOC_FAILED: out of memory");
  CHECK_THROWS_AS(is_right([](const Tensors&) -> Tensors {
                    TORCH_CHECK(false, "CUDA error: out of memory");
                    return {};
                  }),
                  c10::Error);
}

TEST_CASE("a fused kernel is checked once for a device") {
  int checks = 0;
  const auto check = [&](c10::Device device) {
    ++checks;
    return KernelCheck{{check_numbers({3}, 1, device)}, square, square};
  };
  for (int i = 0; i < 3; ++i) CHECK(fused_kernel_is_right("checked once", here(), check));
  CHECK(checks == 1);
}

TEST_CASE("the kernels that are wrong on a device are listed") {
  const auto check_of = [](const KernelCheck::Compute& fused) {
    return [=](c10::Device device) {
      return KernelCheck{{check_numbers({3}, 1, device)}, fused, square};
    };
  };
  const auto listed = [](const std::string& name) {
    const std::vector<std::string> wrong = wrong_kernels(here());
    return std::count(wrong.begin(), wrong.end(), name);
  };
  fused_kernel_is_right("listed right", here(), check_of(square));
  fused_kernel_is_right("listed wrong", here(),
                        check_of([](const Tensors& all) -> Tensors { return {all[0] * 2}; }));
  CHECK(listed("listed right") == 0);
  CHECK(listed("listed wrong") == 1);
}

TEST_CASE("dense layers whose products are wrong are found", "[gpu]") {
  if (!gpu()) return;
  const auto is_right_with = [](const char* wrong) {
    ::setenv("BVTRAIN_EMULATED_WRONG_EPILOGUES", wrong, 1);
    const bool right = fused_kernel_is_right(wrong, kGpu, [](c10::Device device) {
      return KernelCheck{
          {check_numbers({24, 64}, 1, device, at::kBFloat16),
           check_numbers({32, 64}, 2, device).t(), check_numbers({32}, 3, device),
           check_numbers({64, 32}, 4, device).t(), check_numbers({64}, 5, device)},
          [](const Tensors& all) -> Tensors {
            return {device_mlp(all[0], all[1], all[2], all[3], all[4], /*train=*/false)};
          },
          [](const Tensors& all) -> Tensors {
            const at::Tensor inner = at::gelu(at::linear(all[0], all[1].t(), all[2]), "tanh");
            return {at::linear(inner, all[3].t(), all[4])};
          }};
    });
    ::unsetenv("BVTRAIN_EMULATED_WRONG_EPILOGUES");
    return right;
  };
  CHECK(is_right_with("none"));
  if (cuda_name(0) != "emulated GPU") return;               // others compute no wrong products
  for (const char* epilogue : {"1", "2", "3", "5", "6"}) {  // numbers of `Epilogue`
    INFO(epilogue);
    CHECK_FALSE(is_right_with(epilogue));
  }
}

}  // namespace
}  // namespace bv::test
