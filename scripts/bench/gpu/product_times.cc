#include "scripts/bench/gpu/product_times.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "lib/device/operator_record.h"
#include "lib/model/kernels/device/dense_products.h"

namespace bv {
namespace {

// Returns the operators that `work` calls, as "name x2 other x1".
std::string operators_of(const std::function<void()>& work, c10::DeviceType device) {
  const OperatorRecorder recorder(device);
  work();
  std::map<std::string, int> counts;
  for (const OperatorCall& call : recorder.calls()) ++counts[call.name];
  std::string all;
  for (const auto& [name, count] : counts) all += fmt::format(" {} x{}", name, count);
  return all;
}

// Returns the mean seconds of `work` on the device.
double seconds_of(const std::function<void()>& work, c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  const auto mean = [&](int rounds) {
    guard.synchronizeDevice(device.index());
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) work();
    guard.synchronizeDevice(device.index());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / rounds;
  };
  mean(3);
  return mean(20);
}

void print_layer(c10::Device device, int64_t rows, int64_t in, int64_t out) {
  const auto make = [&](at::IntArrayRef shape) {
    return at::randn(shape, at::TensorOptions(device).dtype(at::kFloat)).to(at::kBFloat16);
  };
  const at::Tensor x = make({rows, in}), weight = make({out, in}), bias = make({out}),
                   grad = make({rows, out});
  at::Tensor other;
  const auto time = [&](const char* what, const std::function<void()>& work) {
    const double seconds = seconds_of(work, device);
    std::printf("product   %4ld to %4ld %-28s %7.3f ms %4.0f TFLOP/s %s\n", in, out, what,
                1e3 * seconds, 2e-12 * static_cast<double>(rows * in * out) / seconds,
                operators_of(work, device.type()).c_str());
  };
  time("forward", [&] { linear_product(x, weight, bias); });
  time("forward plain", [&] { at::linear(x, weight, bias); });
  time("forward gelu aux", [&] { gelu_product(x, weight, bias, &other); });
  time("forward gelu", [&] { gelu_product(x, weight, bias, nullptr); });
  time("forward gelu plain", [&] { at::gelu(at::linear(x, weight, bias), "tanh"); });
  time("input gradient", [&] { input_gradient(grad, weight); });
  time("input gradient plain", [&] { at::mm(grad, weight); });
  time("input gradient dgelu bgrad", [&] { gelu_input_gradient(grad, weight, x, &other); });
  time("input gradient dgelu", [&] { gelu_input_gradient(grad, weight, x, nullptr); });
  time("input gradient dgelu plain",
       [&] { at::gelu_backward(at::mm(grad, weight), x, "tanh").sum(0); });
  time("weight gradient bgrad", [&] { weight_gradient(grad, x, &other); });
  time("weight gradient", [&] { weight_gradient(grad, x, nullptr); });
  time("weight gradient plain", [&] { at::mm(grad.t(), x).to(at::kFloat); });
  time("sum of rows", [&] { sum_of_rows(grad); });
}

}  // namespace

void print_product_times(c10::Device device, int64_t rows) {
  print_layer(device, rows, 768, 2304);
  print_layer(device, rows, 768, 768);
  print_layer(device, rows, 768, 3072);
  print_layer(device, rows, 3072, 768);
}

}  // namespace bv
