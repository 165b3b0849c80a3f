// Rules give the same results one element at a time, as on CUDA, as in blocks of 64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/optim/fused.h"
#include "lib/util/rng.h"

namespace bv::test {
namespace {

std::vector<float> noise(uint64_t seed) {
  Rng rng(seed, Purpose::synthetic, 0);
  std::vector<float> values(kBlock);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

std::vector<float> floats(const std::vector<float>& values) { return values; }
std::vector<float> floats(const std::vector<Bf16>& values) {
  std::vector<float> all;
  for (const Bf16& value : values) all.push_back(load(value));
  return all;
}

void check_close(const std::vector<float>& a, const std::vector<float>& b, float bound) {
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(i);
    CHECK(std::abs(a[i] - b[i]) <= bound * (1e-3F + std::abs(b[i])));
  }
}

// Returns parameters, averages and updates after three steps of a rule in blocks of N.
struct Left {
  std::vector<float> p = noise(1), ema = noise(2), u = std::vector<float>(kBlock);
};

template <int64_t N, class Rule>
Left run(const Rule& rule, float limit) {
  Left left;
  const FusedFactors factors = {.lr = 0.1F,
                                .lr_mult = 0.5F,
                                .weight_decay = 0.01F,
                                .schedule = 0.3F,
                                .ema_decay = 0.9F,
                                .norm = 8,
                                .limit = limit};
  for (uint64_t step = 0; step < 3; ++step) {
    std::vector<float> g = noise(10 + step);
    g[5] = 0;
    for (int64_t at = 0; at < kBlock; at += N) {
      Lanes<N> u, p;
      fused_block<N>(rule, factors, at, g.data() + at, left.p.data() + at, left.ema.data(), u, p);
      for (int64_t i = 0; i < N; ++i) {
        CHECK(p[i] == left.p[at + i]);
        left.u[at + i] = u[i];
      }
    }
  }
  return left;
}

// `make` creates a rule from two state buffers.
template <class T, class Make>
void compare(const Make& make) {
  for (const float limit : {0.0F, 1.0F, 100.0F}) {
    std::vector<T> first[2] = {std::vector<T>(kBlock), std::vector<T>(kBlock)};
    std::vector<float> second[2] = {std::vector<float>(kBlock), std::vector<float>(kBlock)};
    const Left blocks = run<kBlock>(make(first[0].data(), second[0].data()), limit);
    const Left single = run<1>(make(first[1].data(), second[1].data()), limit);
    const float bound = std::is_same_v<T, float> ? 1e-5F : 8e-3F;  // one rounding to bfloat16
    check_close(single.p, blocks.p, bound);
    check_close(single.u, blocks.u, bound);
    check_close(single.ema, blocks.ema, bound);
    check_close(floats(first[1]), floats(first[0]), bound);
    check_close(second[1], second[0], bound);
  }
}

template <class T, bool kNesterov>
void compare_adam() {
  compare<T>([](T* mu, float* nu) {
    return AdamRule<T, kNesterov>{mu,    nu,   0.9F, 0.9F,  0.1F,  0.999F, 0.001F,
                                  1e-8F, 0.0F, 0.1F, -0.5F, 0.19F, 0.271F, 0.1F};
  });
}

template <class T, bool kNesterov>
void compare_momentum() {
  compare<T>([](T* trace, float*) { return MomentumRule<T, kNesterov>{trace, 0.8F, 0.8F, 1.5F}; });
}

}  // namespace

TEST_CASE("a rule does the same to one element as to a block") {
  compare_adam<float, false>();
  compare_adam<float, true>();
  compare_adam<Bf16, false>();
  compare_adam<Bf16, true>();
  compare_momentum<float, false>();
  compare_momentum<float, true>();
  compare_momentum<Bf16, false>();
  compare_momentum<Bf16, true>();
  compare<float>([](float*, float*) { return FactorRule{-2}; });
  compare<float>([](float* e, float*) { return AverageRule<float>{e, 0.7F, 0.3F}; });
  compare<Bf16>([](Bf16* e, float*) { return AverageRule<Bf16>{e, 0.7F, 0.3F}; });
}

TEST_CASE("square_sum adds in double precision") {
  const at::Tensor flat = at::full({kBlock * 1000}, 3.0F);
  const at::Tensor sum = square_sum(flat);
  CHECK(sum.scalar_type() == at::kDouble);
  CHECK(sum.item<double>() == 9.0 * kBlock * 1000);
}

}  // namespace bv::test
