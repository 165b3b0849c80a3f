// Dense layers on a device: lib/model/kernels/device/device_linear.h.
#include "lib/model/kernels/device/device_linear.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>

#include "lib/device/operator_record.h"
#include "lib/model/kernels/device/dense_products.h"
#include "test/cuda/gpu_runs.h"

namespace bv::test {
namespace {

using Function = std::function<at::Tensor(const Tensors&)>;

// The bound for results in bfloat16, whose rounding errors are up to 2^-9. Each difference is
// compared with the largest value of its tensor.
constexpr double kBound = 2e-2;

at::Tensor noise(uint64_t seed, at::IntArrayRef shape, double scale = 1) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat) * scale;
}

// A kernel (in, out) that is stored as (out, in), as those of models are.
at::Tensor kernel_of(uint64_t seed, int64_t in, int64_t out) {
  return noise(seed, {out, in}, 1 / std::sqrt(static_cast<double>(in))).t();
}

at::Tensor rounded(const at::Tensor& values) { return values.to(at::kBFloat16).to(values.dtype()); }

at::Tensor plain_linear(const Tensors& all) {  // x, kernel, bias
  return at::linear(all[0], all[1].t(), all[2]);
}
at::Tensor plain_mlp(const Tensors& all) {
  return at::linear(at::gelu(plain_linear(all), "tanh"), all[3].t(), all[4]);
}
at::Tensor fused_linear(const Tensors& all) { return device_linear(all[0], all[1], all[2]); }
at::Tensor fused_mlp(const Tensors& all) {
  return device_mlp(all[0], all[1], all[2], all[3], all[4], /*train=*/false);
}

// Returns the result of `function`, and the gradients of those inputs that `wanted` names, for the
// gradient `above` of the result. The others are undefined.
Tensors results(const Function& function, const Tensors& inputs, const std::vector<bool>& wanted,
                const at::Tensor& above) {
  Tensors leaves, trained, all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].detach().requires_grad_(wanted[i]));
    if (wanted[i]) trained.push_back(leaves.back());
  }
  const at::Tensor y = function(leaves);
  all.push_back(y.detach());
  const Tensors grads =
      torch::autograd::grad({y}, trained, {above.to(y.device(), y.scalar_type())});
  size_t next = 0;
  for (const bool is : wanted) all.push_back(is ? grads[next++] : at::Tensor());
  return all;
}

// The first input in bfloat16 on the device, the others in float32.
Tensors on_device(const Tensors& inputs) {
  Tensors all;
  for (const at::Tensor& each : inputs) all.push_back(each.to(kGpu));
  all[0] = all[0].to(at::kBFloat16);
  return all;
}

Tensors in_double(const Tensors& inputs) {
  Tensors all;
  for (const at::Tensor& each : inputs) all.push_back(rounded(each).to(at::kDouble));
  return all;
}

void check_near(const Tensors& got, const Tensors& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("result " << i);
    REQUIRE(got[i].defined() == want[i].defined());
    if (!got[i].defined()) continue;
    CHECK(got[i].scalar_type() == (i < 2 ? at::kBFloat16 : at::kFloat));  // of y and x
    REQUIRE(got[i].sizes() == want[i].sizes());
    const at::Tensor difference = (got[i].cpu().to(at::kDouble) - want[i]).abs().max();
    CHECK(difference.item<double>() <= kBound * want[i].abs().max().item<double>());
  }
}

void check_same(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].defined()) CHECK(a[i].cpu().equal(b[i].cpu()));
}

Tensors linear_inputs(at::IntArrayRef shape, int64_t out) {
  const int64_t in = shape.back();
  return {rounded(noise(1, shape)), kernel_of(2, in, out), noise(3, {out})};
}

Tensors mlp_inputs(at::IntArrayRef shape, int64_t hidden) {
  const int64_t in = shape.back();
  return {rounded(noise(1, shape)), kernel_of(2, in, hidden), noise(3, {hidden}),
          kernel_of(4, hidden, in), noise(5, {in})};
}

const std::vector<std::vector<int64_t>> kDenseShapes = {
    {1, 16}, {7, 64}, {3, 197, 64}, {2, 3, 5, 192}};

TEST_CASE("a dense layer on a device, and its gradients", "[gpu]") {
  if (!gpu()) return;
  for (const std::vector<int64_t>& shape : kDenseShapes) {
    for (const int64_t out : {16, 40, 256}) {
      INFO(at::IntArrayRef(shape) << " to " << out);
      const Tensors inputs = linear_inputs(shape, out);
      const at::Tensor y = plain_linear(in_double(inputs)), above = rounded(noise(6, y.sizes()));
      const std::vector<bool> wanted(3, true);
      const Tensors got = results(fused_linear, on_device(inputs), wanted, above);
      check_near(got, results(plain_linear, in_double(inputs), wanted, above));
      check_same(got, results(fused_linear, on_device(inputs), wanted, above));
      const at::NoGradGuard no_grad;
      CHECK(fused_linear(on_device(inputs)).equal(got[0]));
    }
  }
}

TEST_CASE("two dense layers with GELU between them on a device, and their gradients", "[gpu]") {
  if (!gpu()) return;
  for (const std::vector<int64_t>& shape : kDenseShapes) {
    for (const int64_t hidden : {16, 24, 256}) {
      INFO(at::IntArrayRef(shape) << ", hidden " << hidden);
      const Tensors inputs = mlp_inputs(shape, hidden);
      const at::Tensor above = rounded(noise(6, shape));
      const std::vector<bool> wanted(5, true);
      const Tensors got = results(fused_mlp, on_device(inputs), wanted, above);
      check_near(got, results(plain_mlp, in_double(inputs), wanted, above));
      check_same(got, results(fused_mlp, on_device(inputs), wanted, above));
      const at::NoGradGuard no_grad;
      check_near({fused_mlp(on_device(inputs))}, {plain_mlp(in_double(inputs))});
    }
  }
}

TEST_CASE("dense layers on a device compute only the gradients that are wanted", "[gpu]") {
  if (!gpu()) return;
  const auto check_all = [](const Function& fused, const Function& plain, const Tensors& inputs) {
    const at::Tensor above = rounded(noise(6, plain(inputs).sizes()));
    for (unsigned bits = 1; bits < 1U << inputs.size(); ++bits) {
      std::vector<bool> wanted;
      for (size_t i = 0; i < inputs.size(); ++i) wanted.push_back((bits >> i & 1) != 0);
      INFO("inputs " << bits);
      check_near(results(fused, on_device(inputs), wanted, above),
                 results(plain, in_double(inputs), wanted, above));
    }
  };
  check_all(fused_linear, plain_linear, linear_inputs({9, 32}, 48));
  check_all(fused_mlp, plain_mlp, mlp_inputs({9, 32}, 64));
}

TEST_CASE("dense layers on a device take tensors of any strides, types and places", "[gpu]") {
  if (!gpu()) return;
  const std::vector<bool> wanted(3, true);
  const Tensors inputs = linear_inputs({6, 5, 32}, 48);
  const at::Tensor above = rounded(noise(6, {6, 5, 48}));
  const Tensors want = results(fused_linear, on_device(inputs), wanted, above);
  Tensors other = on_device(inputs);
  other[0] = other[0].transpose(0, 1).contiguous().transpose(0, 1);
  other[1] = other[1].contiguous();  // stored as (in, out)
  check_same(results(fused_linear, other, wanted, above), want);
  // Begins at an odd multiple of 2 bytes.
  other[0] =
      at::empty({6 * 5 * 32 + 1}, other[0].options()).narrow(0, 1, 6 * 5 * 32).view({6, 5, 32});
  other[0].copy_(inputs[0]);
  check_same(results(fused_linear, other, wanted, above), want);
  // The gradient that arrives is expanded, or a part of a larger tensor, or float32.
  const Function mean = [](const Tensors& all) { return fused_linear(all).mean(1); };
  const Function plain_mean = [](const Tensors& all) { return plain_linear(all).mean(1); };
  const at::Tensor less = rounded(noise(7, {6, 48}));
  check_near(results(mean, on_device(inputs), wanted, less),
             results(plain_mean, in_double(inputs), wanted, less));
  const Function part = [](const Tensors& all) { return fused_linear(all).narrow(2, 1, 7); };
  const Function plain_part = [](const Tensors& all) { return plain_linear(all).narrow(2, 1, 7); };
  const at::Tensor few = rounded(noise(7, {6, 5, 7}));
  check_near(results(part, on_device(inputs), wanted, few),
             results(plain_part, in_double(inputs), wanted, few));
}

TEST_CASE("dense layers on a device without the products that the library may lack", "[gpu]") {
  if (!gpu()) return;
  const Tensors inputs = mlp_inputs({9, 32}, 64);
  const at::Tensor above = rounded(noise(6, {9, 32}));
  const std::vector<bool> wanted(5, true);
  const Tensors want = results(plain_mlp, in_double(inputs), wanted, above);
  // Numbers of `Epilogue`. Only the emulated GPU obeys.
  for (const char* missing : {"2", "3", "4", "5", "6", "45", "06", "0123456"}) {
    INFO("without " << missing);
    ::setenv("BVTRAIN_EMULATED_MISSING_EPILOGUES", missing, 1);
    check_near(results(fused_mlp, on_device(inputs), wanted, above), want);
    const at::NoGradGuard no_grad;
    check_near({fused_mlp(on_device(inputs))}, {want[0]});
  }
  ::unsetenv("BVTRAIN_EMULATED_MISSING_EPILOGUES");
}

TEST_CASE("dense layers on a device leave other sizes to LibTorch", "[gpu]") {
  if (!gpu()) return;
  const auto fits = [](int64_t rows, int64_t in, int64_t out) {
    return fits_device_linear(at::empty({rows, in}, kGpu), at::empty({in, out}, kGpu));
  };
  CHECK(fits(3, 32, 48));
  CHECK_FALSE(fits(0, 32, 48));
  CHECK_FALSE(fits(3, 196, 48));
  CHECK_FALSE(fits(3, 32, 10));
  CHECK_FALSE(fits(3, 8, 48));
  CHECK_FALSE(fits_device_linear(at::empty({3, 32}), at::empty({32, 48})));
}

// How often each operator is called.
std::map<std::string, int> operators_of(const std::function<void()>& work) {
  const OperatorRecorder recorder(c10::kCUDA);
  work();
  std::map<std::string, int> counts;
  for (const OperatorCall& call : recorder.calls()) ++counts[call.name];
  return counts;
}

TEST_CASE("a vit computes its dense layers and GELU by fused products on a device", "[gpu]") {
  if (!gpu()) return;
  const auto calls = [](Precision precision) {
    Run run(models()[1], precision, kGpu, kAdam);
    run.train(1);  // the first step checks the fused kernels against LibTorch's
    return operators_of([&] { run.train(1); });
  };
  auto fused = calls(Precision::bf16), plain = calls(Precision::float32);
  CHECK(fused["bvtrain::product"] > 0);
  CHECK(fused["aten::gelu"] == 0);
  CHECK(fused["aten::gelu_backward"] == 0);
  CHECK(plain["bvtrain::product"] == 0);
  CHECK(plain["aten::gelu"] > 0);
}

}  // namespace
}  // namespace bv::test
