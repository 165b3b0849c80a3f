// The CUDA kernels without a GPU. CPU threads emulate those of a block (test/cuda/emulation). This
// checks the place of every element and every sum, and that nothing outside a buffer is accessed,
// but not the hardware.
#include "lib/cuda/kernels.cu"

#include <catch2/catch.hpp>
#include <new>
#include <tuple>

#include "lib/util/rng.h"
#include "test/support/guarded.h"

namespace bv {

using test::Guard;
using test::Guarded;

// The alignment of GPU memory.
constexpr std::align_val_t kScratchAlignment{512};
Scratch::Scratch(size_t bytes, void*) : memory_(::operator new(bytes, kScratchAlignment)) {}
Scratch::~Scratch() { ::operator delete(memory_, kScratchAlignment); }

namespace {

constexpr int64_t kSize = 64 * 200;

std::vector<float> normal_numbers(uint64_t seed, int64_t n = kSize) {
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

// Parameters, gradients and state have different offsets, and one range is not counted.
const std::vector<FusedChunk> kRanges = {
    {0, 64 * 100, 0, 0, true, 1, 0.01F, 1},
    {64 * 100, 64 * 101, 64 * 100, 64 * 100, false, 2, 0, 0},
    {64 * 101, kSize - 128, 64 * 103, 64 * 102, true, 1, 0, 0}};
// The decay of the averages, the three numbers of a rule (here Adam's) and two schedules.
constexpr float kNumbers[] = {0.9F, 0.19F, 0.271F, 0.1F, 1, 0.5F};

// Parameters, averages and two buffers of state, before and after an update.
struct Left {
  std::vector<float> p = normal_numbers(1), ema = normal_numbers(2),
                     first = std::vector<float>(kSize, 0.5F),
                     second = std::vector<float>(kSize, 0.25F);
  std::vector<double> sums = {0, 0};
};

template <class Make>
Left on_blocks(const Make& make, const std::vector<float>& g, double norm, float limit) {
  Left left;
  const auto rule = in_step(make(left.first.data(), left.second.data()), {kNumbers});
  for (const FusedChunk& range : kRanges) {
    const FusedFactors factors =
        fused_factors(range, {0.1F, limit}, {kNumbers}, static_cast<float>(norm));
    for (int64_t at = range.begin; at < range.end; ++at) {
      const int64_t from = at - range.begin;
      Lanes<1> u, p;
      fused_block<1>(rule, factors, at, g.data() + range.grad + from,
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
                              .scalars = {0.1F, limit},
                              .numbers = {kNumbers},
                              .ranges = kRanges.data(),
                              .count = std::ssize(kRanges),
                              .sums = left.sums.data()};
  const UpdateKernel<std::decay_t<decltype(rule)>>& kernel = bvtrain_cuda_kernels;
  kernel.update(rule, all, nullptr);
  return left;
}

template <class Make>
void compare_updates(const Make& make) {
  const std::vector<float> g = normal_numbers(3);
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
  compare_updates([](float* mu, float* nu) {
    return AdamRule<float, false>{mu,     nu,    0.9F, 0.9F, 0.1F, 0.999F,
                                  0.001F, 1e-8F, 0.0F, 0.0F, 1.0F};
  });
  compare_updates([](float* trace, float*) {
    return MomentumRule<float, true>{trace, 0.8F, 0.8F, 1.5F};
  });
  compare_updates([](float*, float*) { return FactorRule{2}; });
  compare_updates([](float* e, float*) { return AverageRule<float>{e, 0.7F, 0.3F}; });
}

TEST_CASE("the kernel of square_sum") {
  for (const int64_t n : {64, 64 * 40, 64 * 333}) {
    const std::vector<float> values = normal_numbers(4, n);
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
        bvtrain_cuda_images(pass, nullptr, bytes.data() + width, bytes.data(), got.data(), nullptr);
        for (int64_t image = 0; image < 3; ++image) {
          const uint8_t* previous = bytes.data() + image * width;
          for (int64_t at = 0; at < width; ++at)
            want[static_cast<size_t>(image * width + at)] =
                pass.value(previous + width, previous, at);
        }
        CHECK(got == want);
        // The mixup shares may be in device memory.
        ImagePass other = pass;
        std::tie(other.keep, other.other) = std::pair(0.1F, 0.2F);
        const float shares[] = {pass.keep, pass.other};
        std::fill(got.begin(), got.end(), 9.0F);
        bvtrain_cuda_images(other, shares, bytes.data() + width, bytes.data(), got.data(), nullptr);
        CHECK(got == want);
      }
    }
  }
}

TEST_CASE("the kernel of dropout draws every element of the part of a rank") {
  for (const int64_t offset : {int64_t{0}, int64_t{1003}, (int64_t{1} << 34) + 3}) {
    const DropoutMask mask = {offset, offset + 5555,           1U << 30, 2.0F,
                              4,      (uint64_t{6} << 32) + 5, {7, 8}};
    std::vector<float> got(5555, -1), want(5555, -1);
    bvtrain_cuda_dropout(mask, nullptr, got.data(), nullptr);
    for (int64_t block = mask.first_block(); block < mask.last_block(); ++block)
      mask.fill(block, want.data());
    CHECK(got == want);
    CHECK(std::count(got.begin(), got.end(), -1.0F) == 0);
    CHECK(std::count(got.begin(), got.end(), 0.0F) == Approx(5555 / 4.0).epsilon(0.1));
    // The step number may be in device memory.
    DropoutMask other = mask;
    other.step = 1;
    const auto step = static_cast<int64_t>(mask.step);
    std::fill(got.begin(), got.end(), -1.0F);
    bvtrain_cuda_dropout(other, &step, got.data(), nullptr);
    CHECK(got == want);
  }
}

constexpr Guard kGuards[] = {Guard::before, Guard::behind};
constexpr int64_t kFar = (int64_t{1} << 32) + 64;  // elements; does not fit in 32 bits

TEST_CASE("kernels stay within their buffers: images and dropout of every shape") {
  for (const Guard guard : kGuards) {
    for (const int64_t images : {1, 3}) {
      for (const int64_t width : {1, 3, 196, 197, 2049}) {
        const ImagePass pass{images, width, 3,     {1, 2, 3}, {255, 254, 253}, 2, -1,
                             -1,     1,     0.75F, 0.25F};
        const auto count = static_cast<size_t>(images * width);
        const Guarded<uint8_t> bytes(count, 7, guard), before(static_cast<size_t>(width), 9, guard);
        const Guarded<float> out(count, -9, guard);
        bvtrain_cuda_images(pass, nullptr, bytes.data(), before.data(), out.data(), nullptr);
        CHECK(std::count(out.values().begin(), out.values().end(), -9.0F) == 0);
      }
    }
    for (const int64_t offset : {int64_t{0}, int64_t{1}, int64_t{3}, kFar + 1}) {
      for (const int64_t n : {1, 3, 4, 5, 196, 197, 5000}) {
        const DropoutMask mask = {offset, offset + n, 1U << 30, 2.0F, 4, 6, {7, 8}};
        const Guarded<float> out(static_cast<size_t>(n), -9, guard);
        bvtrain_cuda_dropout(mask, nullptr, out.data(), nullptr);
        CHECK(std::count(out.values().begin(), out.values().end(), -9.0F) == 0);
      }
    }
  }
}

TEST_CASE("kernels stay within their buffers: optimizer and sums, at places above 2^32") {
  for (const Guard guard : kGuards) {
    for (const int64_t n : {64, 64 * 33}) {
      const auto count = static_cast<size_t>(n);
      const Guarded<float> g(count, 2, guard), p(count, 3, guard), ema(count, 4, guard),
          trace(count, 5, guard);
      // The buffers begin far before the elements that the range has.
      const FusedChunk range = {kFar, kFar + n, 2 * kFar, 3 * kFar, true, 1, 0, 0};
      double sums[2] = {0, 0};
      const float numbers[] = {0.5F, 0, 0, 0, 1};
      const FusedArguments all = {.grad = g.data() - range.grad,
                                  .param = p.data() - range.data,
                                  .ema = ema.data() - range.begin,
                                  .grad_squares = nullptr,
                                  .scalars = {1, 0},
                                  .numbers = {numbers},
                                  .ranges = &range,
                                  .count = 1,
                                  .sums = sums};
      const MomentumRule<float, false> rule{trace.data() - range.begin, 0.5F, 0.5F, 1};
      const UpdateKernel<MomentumRule<float, false>>& kernel = bvtrain_cuda_kernels;
      kernel.update(rule, all, nullptr);
      const float moved = p.values()[0];
      CHECK(moved != 3);
      CHECK(std::count(p.values().begin(), p.values().end(), moved) == n);
      CHECK(std::count(ema.values().begin(), ema.values().end(), ema.values()[0]) == n);
      CHECK(sums[0] == Approx(static_cast<double>(n) * moved * moved));
      bvtrain_cuda_kernels.square_sum(g.data(), n, sums, nullptr);
      CHECK(sums[0] == 4.0 * static_cast<double>(n));
    }
  }
}

TEST_CASE("the kernel of the pass over images finds values behind the 2^32nd") {
  constexpr int64_t kWidth = 224 * 224 * 3, kImage = 30'000, kPerBlock = kThreads * kElements;
  constexpr int64_t kParts = (kWidth + kPerBlock - 1) / kPerBlock;
  static_assert(kImage * kWidth > int64_t{1} << 32);
  const ImagePass pass{kImage + 1, kWidth, 3, {1, 2, 3}, {255, 254, 253}, 2, -1, -1, 1, 1, 0};
  const Guarded<uint8_t> bytes(kWidth, 7, Guard::behind);
  const Guarded<float> out(kWidth, -9, Guard::behind);
  for (int64_t part = 0; part < kParts; ++part) {
    blockIdx.x = static_cast<unsigned>(kImage * kParts + part);
    for (threadIdx.x = 0; threadIdx.x < kThreads; ++threadIdx.x)
      compute_images(pass, nullptr, kParts, bytes.data() - kImage * kWidth, nullptr,
                     out.data() - kImage * kWidth);
  }
  CHECK(std::count(out.values().begin(), out.values().end(), -9.0F) == 0);
}

}  // namespace
}  // namespace bv
