// The code of the CUDA kernels without a GPU. Threads of the CPU play those of a block
// (test/cuda/emulation). This checks the place of every element and every sum, but not the
// hardware.
#include "lib/cuda/kernels.cu"

#include <catch2/catch.hpp>

#include "lib/util/rng.h"

namespace bv {

Scratch::Scratch(size_t bytes, void*) : memory_(::operator new(bytes)) {}
Scratch::~Scratch() { ::operator delete(memory_); }

namespace {

constexpr int64_t kSize = 64 * 200;

std::vector<float> noise(uint64_t seed, int64_t n = kSize) {
  Rng rng(seed, Purpose::synthetic, 0);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

double squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

// Parameters, gradients and state have different places, and one range is not counted.
const std::vector<FusedChunk> kRanges = {
    {0, 64 * 100, 0, 0, true, 1, 0.01F, 0.5F},
    {64 * 100, 64 * 101, 64 * 100, 64 * 100, false, 2, 0, 1},
    {64 * 101, kSize - 128, 64 * 103, 64 * 102, true, 1, 0, 1}};

// Parameters, averages and two buffers of state, before and after an update.
struct Left {
  std::vector<float> p = noise(1), ema = noise(2), first = std::vector<float>(kSize, 0.5F),
                     second = std::vector<float>(kSize, 0.25F);
  std::vector<double> sums = {0, 0};
};

template <class Make>
Left on_blocks(const Make& make, const std::vector<float>& g, double norm, float limit) {
  Left left;
  const auto rule = make(left.first.data(), left.second.data());
  const FusedScalars scalars = {0.1F, 0.9F, static_cast<float>(norm), limit};
  for (const FusedChunk& range : kRanges) {
    for (int64_t at = range.begin; at < range.end; ++at) {
      const int64_t from = at - range.begin;
      Lanes<1> u, p;
      fused_block<1>(rule, range, scalars, at, g.data() + range.grad + from,
                     left.p.data() + range.data + from, left.ema.data(), u, p);
      if (!range.counts) continue;
      left.sums[0] += static_cast<double>(p[0]) * p[0];
      left.sums[1] += static_cast<double>(u[0]) * u[0];
    }
  }
  return left;
}

template <class Make>
Left on_threads(const Make& make, const std::vector<float>& g, double grad_squares, float limit) {
  Left left;
  const auto rule = make(left.first.data(), left.second.data());
  const FusedArguments all = {.grad = g.data(),
                              .param = left.p.data(),
                              .ema = left.ema.data(),
                              .grad_squares = limit > 0 ? &grad_squares : nullptr,
                              .scalars = {0.1F, 0.9F, 0, limit},
                              .ranges = kRanges.data(),
                              .count = std::ssize(kRanges),
                              .sums = left.sums.data()};
  const UpdateKernel<std::decay_t<decltype(rule)>>& kernel = bvtrain_cuda_kernels;
  kernel.update(rule, all, nullptr);
  return left;
}

template <class Make>
void compare(const Make& make) {
  const std::vector<float> g = noise(3);
  for (const float limit : {0.0F, 1.0F}) {
    const double all = squares(g);
    const Left want = on_blocks(make, g, std::sqrt(all), limit);
    const Left got = on_threads(make, g, all, limit);
    CHECK(got.p == want.p);
    CHECK(got.ema == want.ema);
    CHECK(got.first == want.first);
    CHECK(got.second == want.second);
    CHECK(got.sums[0] == Approx(want.sums[0]).epsilon(1e-12));
    CHECK(got.sums[1] == Approx(want.sums[1]).epsilon(1e-12));
  }
}

TEST_CASE("the kernel of each rule updates every element once") {
  compare([](float* mu, float* nu) {
    return AdamRule<float, false>{mu,    nu,     0.9F, 0.9F,  0.1F, 0.999F, 0.001F,
                                  0.19F, 0.271F, 0.1F, 1e-8F, 0.0F, 0.0F,   1.0F};
  });
  compare([](float* trace, float*) { return MomentumRule<float, true>{trace, 0.8F, 0.8F, 1.5F}; });
  compare([](float*, float*) { return FactorRule{2}; });
  compare([](float* e, float*) { return AverageRule<float>{e, 0.7F, 0.3F}; });
}

TEST_CASE("the kernel of square_sum") {
  for (const int64_t n : {64, 64 * 40, 64 * 333}) {
    const std::vector<float> values = noise(4, n);
    double sum = 0;
    bvtrain_cuda_kernels.square_sum(values.data(), n, &sum, nullptr);
    CHECK(sum == Approx(squares(values)).epsilon(1e-12));
  }
}

TEST_CASE("the kernel of the pass over images computes every value of every image") {
  constexpr int64_t kBlock = kThreads * kElements;
  for (const int64_t width : {int64_t{1}, int64_t{5}, kBlock - 1, kBlock, 2 * kBlock + 3}) {
    for (const int channels : {1, 3, 4}) {
      for (const float keep : {1.0F, 0.75F}) {
        INFO(width << " values, " << channels << " channels, " << keep);
        const ImagePass pass{3,  width, channels, {1, 2, 3, 4}, {255, 254, 253, 252}, 2,
                             -1, -0.9F, 0.8F,     keep,         1.0F - keep};
        std::vector<uint8_t> bytes(static_cast<size_t>(4 * width));  // the first one is `before`
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(31 * i + i / 7);
        std::vector<float> got(static_cast<size_t>(3 * width), 9), want = got;
        bvtrain_cuda_images(pass, bytes.data() + width, bytes.data(), got.data(), nullptr);
        for (int64_t image = 0; image < 3; ++image) {
          const uint8_t* previous = bytes.data() + image * width;
          for (int64_t at = 0; at < width; ++at)
            want[static_cast<size_t>(image * width + at)] =
                pass.value(previous + width, previous, at);
        }
        CHECK(got == want);
      }
    }
  }
}

TEST_CASE("the kernel of dropout draws every element of the part of a rank") {
  for (const int64_t offset : {0, 1003}) {
    const DropoutMask mask = {offset, offset + 5555,           1U << 30, 2.0F,
                              4,      (uint64_t{6} << 32) + 5, {7, 8}};
    std::vector<float> got(5555, -1), want(5555, -1);
    bvtrain_cuda_dropout(mask, nullptr, got.data(), nullptr);
    for (int64_t block = mask.first_block(); block < mask.last_block(); ++block)
      mask.fill(block, want.data());
    CHECK(got == want);
    CHECK(std::count(got.begin(), got.end(), -1.0F) == 0);
    CHECK(std::count(got.begin(), got.end(), 0.0F) == Approx(5555 / 4.0).epsilon(0.1));
    // The number of the step may be in the memory of the device.
    DropoutMask other = mask;
    other.step = 1;
    const auto step = static_cast<int64_t>(mask.step);
    std::fill(got.begin(), got.end(), -1.0F);
    bvtrain_cuda_dropout(other, &step, got.data(), nullptr);
    CHECK(got == want);
  }
}

}  // namespace
}  // namespace bv
