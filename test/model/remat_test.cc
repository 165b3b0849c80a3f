// Rematerialization: bit-identical gradients with less memory.
#include "lib/model/remat.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/model/dropout.h"
#include "lib/model/model.h"
#include "lib/model/transformer/encoder.h"

namespace bv::test {
namespace {

// Counts the bytes of the tensors that are created while it exists, until they are freed.
class CountingAllocator : public c10::Allocator {
 public:
  CountingAllocator() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 1); }
  ~CountingAllocator() override { c10::SetCPUAllocator(before_, 1); }

  c10::DataPtr allocate(size_t bytes) override {
    void* memory = std::aligned_alloc(kHeader, (bytes + 2 * kHeader - 1) / kHeader * kHeader);
    *static_cast<size_t*>(memory) = bytes;
    live += bytes;
    peak = std::max(peak.load(), live.load());
    void* data = static_cast<char*>(memory) + kHeader;
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  // Returns the peak bytes that `work` holds, excluding those that exist before it.
  size_t peak_of(const std::function<void()>& work) {
    const size_t start = live;
    peak = start;
    work();
    return peak - start;
  }

  static inline std::atomic<size_t> live{0}, peak{0};

 private:
  static constexpr size_t kHeader = 64;
  static void release(void* data) {
    if (data == nullptr) return;
    void* const memory = static_cast<char*>(data) - kHeader;
    live -= *static_cast<size_t*>(memory);
    std::free(memory);
  }
  c10::Allocator* before_;
};

class Encoders : public Model {
 public:
  Encoders(bool scan, bool remat, double dropout, int64_t depth, int64_t width = 32) {
    TransformerShape shape;
    shape.width = width;
    shape.mlp_dim = 128;
    shape.num_heads = 2;
    shape.depth = depth;
    encoder_ = Encoder::add(*this, shape, {dropout, scan, remat});
    init_parameters(*this, 3, std::nullopt);
  }
  at::Tensor forward(const at::Tensor& tokens, Pass& pass) override {
    return encoder_(tokens, pass);
  }

 private:
  Encoder encoder_;
};

Pass encoder_pass(Precision precision = Precision::float32) {
  Pass pass;
  pass.train = true;
  pass.step = 7;
  pass.precision = precision;
  return pass;
}

at::Tensor tokens(int64_t n, int64_t length, int64_t width = 32) {
  return at::randn({n, length, width}, at::detail::createCPUGenerator(1), at::kFloat);
}

TEST_CASE("remat: values, gradients and dropout masks have the same bits as without it") {
  const bool scan = GENERATE(false, true);
  // With 256 features for 32 tokens, query, key and value would be three products in evaluation. On
  // some CPUs their bits differ from those of one product.
  const int64_t width = GENERATE(32, 256);
  const Precision precision = GENERATE(Precision::float32, Precision::bf16);
  const auto run = [&](bool remat, bool freeze) {
    Encoders model(scan, remat, /*dropout=*/0.3, /*depth=*/3, width);
    for (auto& [name, parameter] : named_parameters(model)) {
      if (freeze && name.find("query") != std::string::npos) parameter.requires_grad_(false);
    }
    Pass pass = encoder_pass(precision);
    double macs = 0;
    pass.macs = &macs;
    const at::Tensor x = tokens(8, 4, width).requires_grad_(true);
    const at::Tensor y = model.forward(x, pass);
    CHECK(pass.next_dropout == 9);
    y.square().sum().backward();
    std::vector<at::Tensor> all = {y.detach(), x.grad(), at::full({1}, macs)};
    for (const auto& [name, parameter] : named_parameters(model)) {
      CHECK(parameter.grad().defined() == parameter.requires_grad());
      if (parameter.requires_grad()) all.push_back(parameter.grad());
    }
    return all;
  };
  for (const bool freeze : {false, true}) {
    const auto plain = run(false, freeze), again = run(true, freeze);
    REQUIRE(plain.size() == again.size());
    for (size_t i = 0; i < plain.size(); ++i) CHECK(plain[i].equal(again[i]));
  }
}

TEST_CASE("remat: peak memory of a training step is that of one block, not of all") {
  CountingAllocator counting;
  const auto peak = [&](bool scan, bool remat) {
    Encoders model(scan, remat, /*dropout=*/0.1, /*depth=*/8);
    const at::Tensor x = tokens(8, 64).requires_grad_(true);
    for (const auto& [name, parameter] : named_parameters(model)) {
      parameter.mutable_grad() = at::zeros_like(parameter);
    }
    return static_cast<double>(counting.peak_of([&] {
      Pass pass = encoder_pass();
      model.forward(x, pass).sum().backward();
    }));
  };
  for (const bool scan : {false, true}) {
    const double plain = peak(scan, false), again = peak(scan, true);
    INFO("scan " << scan << ": " << plain << " bytes, with remat " << again);
    CHECK(again < 0.35 * plain);
  }
}

TEST_CASE("remat: without gradients, or while activations are collected, nothing is recomputed") {
  int calls = 0;
  const RematFunction part = [&](const std::vector<at::Tensor>& inputs, Pass&) {
    ++calls;
    return inputs[0] * inputs[1];
  };
  const at::Tensor a = at::full({2}, 3.0f).requires_grad_(true), b = at::full({2}, 4.0f);
  Pass pass = encoder_pass();
  remat(part, {a, b}, pass).sum().backward();
  CHECK(calls == 2);
  CHECK(a.grad().equal(b));
  CHECK_FALSE(b.grad().defined());

  Features features;
  pass.features = &features;
  remat(part, {a, b}, pass).sum().backward();
  CHECK(calls == 3);
  pass.features = nullptr;
  CHECK_FALSE(remat(part, {b, b}, pass).requires_grad());
  CHECK(calls == 4);
  {
    const c10::InferenceMode inference;
    remat(part, {a, b}, pass);
  }
  CHECK(calls == 5);
}

}  // namespace
}  // namespace bv::test
