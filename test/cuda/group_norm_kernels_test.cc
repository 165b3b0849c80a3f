// The CUDA kernels of group normalisation, run on the CPU (test/cuda/emulation), against float64.
#include "lib/cuda/group_norm.cu"

#include <catch2/catch.hpp>

#include "lib/util/rng.h"
#include "test/support/guarded.h"

namespace bv {

using test::Guard;
using test::Guarded;

namespace {

constexpr double kKernelEps = 1e-5;
constexpr auto kTails = {NormTail::nothing, NormTail::relu, NormTail::add_relu};

// Numbers between guard pages, as float or Bf16.
struct Values {
  Values(size_t count, bool bf16, Guard guard)
      : bf16(bf16),
        count(count),
        wide(bf16 ? 0 : count, -9.0F, guard),
        narrow(bf16 ? count : 0, Bf16{0xC110}, guard) {}
  Values(size_t count, bool bf16, Guard guard, uint64_t seed, double mean = 0)
      : Values(count, bf16, guard) {
    Rng rng(seed, Purpose::synthetic, 0);
    for (size_t i = 0; i < count; ++i) set(i, mean + rng.normal());
  }
  void* data() const { return bf16 ? static_cast<void*>(narrow.data()) : wide.data(); }
  uint16_t* bits() const { return &narrow.data()->bits; }
  double operator[](size_t i) const { return bf16 ? load(narrow.values()[i]) : wide.values()[i]; }
  void set(size_t i, double value) {
    if (bf16)
      store(narrow.data()[i], static_cast<float>(value));
    else
      wide.data()[i] = static_cast<float>(value);
  }
  bool bf16;
  size_t count;
  Guarded<float> wide;
  Guarded<Bf16> narrow;
};

struct Case {
  GroupNormShape shape;
  NormTail tail;
  bool x_bf16, y_bf16;
  double mean = 3;  // of x
  // Whether y, and its rounded copy, has a gradient; for add_relu.
  bool grad = true, rounded_grad = true;
};

// The results of forward and backward in float64, from the same inputs. `active`: where the ReLU
// passes a value; a value near zero may be on either side.
struct Exact {
  std::vector<double> y, g, dx, dscale, dbias;
};

template <class Active>
Exact exact(const GroupNormShape& s, const Values& x, const Values& scale, const Values& bias,
            const std::vector<double>& shortcut, const std::vector<double>& grad,
            const Active& active) {
  const auto c = static_cast<size_t>(s.c), pixels = static_cast<size_t>(s.pixels),
             size = c / static_cast<size_t>(s.groups);
  Exact all{std::vector<double>(x.count), std::vector<double>(x.count),
            std::vector<double>(x.count), std::vector<double>(c), std::vector<double>(c)};
  const auto count = static_cast<double>(pixels * size);
  for (size_t image = 0; image < static_cast<size_t>(s.n); ++image) {
    for (size_t group = 0; group < static_cast<size_t>(s.groups); ++group) {
      const auto for_elements = [&](const auto& f) {
        for (size_t p = 0; p < pixels; ++p)
          for (size_t k = group * size; k < (group + 1) * size; ++k)
            f((image * pixels + p) * c + k, k);
      };
      double mean = 0, var = 0, sum = 0, product = 0;
      for_elements([&](size_t i, size_t) { mean += x[i] / count; });
      for_elements([&](size_t i, size_t) { var += (x[i] - mean) * (x[i] - mean) / count; });
      const double rstd = 1 / std::sqrt(var + kKernelEps);
      for_elements([&](size_t i, size_t k) {
        const double z = (x[i] - mean) * rstd;
        all.y[i] = z * scale[k] + bias[k] + shortcut[i];
        const bool passes = active(i, all.y[i]);
        if (!passes) all.y[i] = 0;
        all.g[i] = passes ? grad[i] : 0;
        all.dscale[k] += all.g[i] * z;
        all.dbias[k] += all.g[i];
        sum += all.g[i] * scale[k] / count;
        product += all.g[i] * scale[k] * z / count;
      });
      for_elements([&](size_t i, size_t k) {
        all.dx[i] = (all.g[i] * scale[k] - sum - (x[i] - mean) * rstd * product) * rstd;
      });
    }
  }
  return all;
}

// Returns the largest error, relative to the type's tolerance.
double error_of(const Values& got, const std::vector<double>& want) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double bound = (got.bf16 ? 8e-3 : 3e-5) * (1 + std::abs(want[i]));
    const double error = std::abs(got[i] - want[i]) / bound;
    worst = error <= worst ? worst : error;  // a NaN stays
  }
  return worst;
}

// Runs forward and backward between guard pages and compares them with the formulas.
void compare_group_norm(const Case& a, Guard guard) {
  const GroupNormShape& s = a.shape;
  INFO(s.n << " images, " << s.pixels << " pixels, " << s.c << " channels, " << s.groups
           << " groups, tail " << static_cast<int>(a.tail) << ", bf16: x " << a.x_bf16 << ", y "
           << a.y_bf16 << ", gradients: " << a.grad << a.rounded_grad);
  const bool adds = a.tail == NormTail::add_relu;
  const auto count = static_cast<size_t>(s.n * s.pixels * s.c), c = static_cast<size_t>(s.c);
  const Values x(count, a.x_bf16, guard, 1, a.mean), scale(c, false, guard, 2),
      bias(c, false, guard, 3), shortcut(count, false, guard, 4), grad(count, a.y_bf16, guard, 5),
      rounded_grad(count, true, guard, 6);
  Values y(count, a.y_bf16, guard), rounded(count, true, guard), dx(count, a.x_bf16, guard),
      dshortcut(count, false, guard), dscale(c, false, guard), dbias(c, false, guard),
      tables(static_cast<size_t>(s.n * group_norm_parts::kTables * s.c), false, guard);
  const Guarded<uint8_t> active(count / 8, 0xA5, guard);
  bvtrain_cuda_group_norm({.shape = s,
                           .tail = a.tail,
                           .x_bf16 = a.x_bf16,
                           .y_bf16 = a.y_bf16,
                           .eps = kKernelEps,
                           .x = x.data(),
                           .scale = scale.wide.data(),
                           .bias = bias.wide.data(),
                           .shortcut = adds ? shortcut.wide.data() : nullptr,
                           .rounded = adds && a.rounded_grad ? rounded.bits() : nullptr,
                           .active = adds ? active.data() : nullptr,
                           .y = y.data(),
                           .tables = tables.wide.data()},
                          nullptr);
  bvtrain_cuda_group_norm_gradient(
      {.shape = s,
       .tail = a.tail,
       .x_bf16 = a.x_bf16,
       .y_bf16 = a.y_bf16,
       .x = x.data(),
       .scale = scale.wide.data(),
       .tables = tables.wide.data(),
       .grad = a.grad ? grad.data() : nullptr,
       .rounded_grad = adds && a.rounded_grad ? rounded_grad.bits() : nullptr,
       .active = adds ? active.data() : nullptr,
       .dshortcut = adds ? dshortcut.wide.data() : nullptr,
       .dx = dx.data(),
       .dscale = dscale.wide.data(),
       .dbias = dbias.wide.data()},
      nullptr);
  std::vector<double> added(count), of_y(count);
  for (size_t i = 0; i < count; ++i) {
    if (adds) added[i] = shortcut[i];
    if (a.grad) of_y[i] = grad[i];
    if (adds && a.rounded_grad) of_y[i] += rounded_grad[i];
  }
  const Exact want = exact(s, x, scale, bias, added, of_y, [&](size_t i, double value) {
    return a.tail == NormTail::nothing || (std::abs(value) < 1e-4 ? y[i] > 0 : value > 0);
  });
  CHECK(error_of(y, want.y) <= 1);
  CHECK(error_of(dx, want.dx) <= 1);
  CHECK(error_of(dscale, want.dscale) <= 4);
  CHECK(error_of(dbias, want.dbias) <= 4);
  if (!adds) return;
  CHECK(error_of(dshortcut, want.g) <= 1);
  if (a.rounded_grad) CHECK(error_of(rounded, want.y) <= 1);
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += (active.data()[i / 8] >> i % 8 & 1) != (y[i] > 0);
  CHECK(wrong == 0);
}

TEST_CASE("the kernels of group normalisation: images of every size, within their buffers") {
  for (const GroupNormShape& shape :
       {GroupNormShape{1, 1, 16, 4},      // 1 pixel for 128 rows of threads
        GroupNormShape{2, 7, 48, 16},     // rows that are not a power of two
        GroupNormShape{1, 5, 2048, 32},   // one row
        GroupNormShape{1, 3, 2064, 3},    // two tiles, groups larger than a byte of octets
        GroupNormShape{2, 1100, 64, 32},  // two parts of different size, groups of 2
        GroupNormShape{1, 51, 1024, 1}})  // all channels in one group
    for (const Guard guard : {Guard::before, Guard::behind})
      compare_group_norm({shape, NormTail::add_relu, true, false}, guard);
}

TEST_CASE("the kernels of group normalisation: types and tails") {
  for (const NormTail tail : kTails)
    for (const bool x_bf16 : {false, true})
      for (const bool y_bf16 : {false, true})
        if (tail != NormTail::add_relu || !y_bf16)
          compare_group_norm({{1, 37, 64, 32}, tail, x_bf16, y_bf16}, Guard::behind);
}

TEST_CASE("the kernels of group normalisation: one of the two gradients alone") {
  compare_group_norm({{1, 9, 64, 32}, NormTail::add_relu, true, false, 3, true, false},
                     Guard::behind);
  compare_group_norm({{1, 9, 64, 32}, NormTail::add_relu, true, false, 3, false, true},
                     Guard::behind);
}

TEST_CASE("the kernels of group normalisation: the variance keeps its digits far from zero") {
  const GroupNormShape shape{1, 600, 64, 8};
  const auto count = static_cast<size_t>(shape.pixels * shape.c);
  Values x(count, false, Guard::behind, 1, 1000), y(count, false, Guard::behind),
      tables(4 * 64, false, Guard::behind);
  x.set(0, -3e5);  // where a pivot could be taken from
  Values one(64, false, Guard::behind), zero(64, false, Guard::behind);
  for (size_t k = 0; k < 64; ++k) one.set(k, 1), zero.set(k, 0);
  bvtrain_cuda_group_norm({.shape = shape,
                           .tail = NormTail::nothing,
                           .x_bf16 = false,
                           .y_bf16 = false,
                           .eps = kKernelEps,
                           .x = x.data(),
                           .scale = one.wide.data(),
                           .bias = zero.wide.data(),
                           .shortcut = nullptr,
                           .rounded = nullptr,
                           .active = nullptr,
                           .y = y.data(),
                           .tables = tables.wide.data()},
                          nullptr);
  for (size_t group = 0; group < 8; ++group) {
    double mean = 0, var = 0;
    const auto for_values = [&](const auto& f) {
      for (size_t p = 0; p < 600; ++p)
        for (size_t k = 8 * group; k < 8 * group + 8; ++k) f(x[64 * p + k]);
    };
    for_values([&](double value) { mean += value / 4800; });
    for_values([&](double value) { var += (value - mean) * (value - mean) / 4800; });
    CHECK(tables[64 * group_norm_parts::kMean + 8 * group] == Approx(mean).epsilon(1e-6));
    CHECK(tables[64 * group_norm_parts::kRstd + 8 * group] ==
          Approx(1 / std::sqrt(var + kKernelEps)).epsilon(1e-5));
  }
}

TEST_CASE("the kernels of group normalisation: NaN stays in its image and group") {
  const GroupNormShape shape{2, 4, 32, 2};
  Values x(2 * 4 * 32, true, Guard::behind, 1), y(2 * 4 * 32, true, Guard::behind),
      tables(2 * 4 * 32, false, Guard::behind), one(32, false, Guard::behind, 2);
  x.set(3 * 32 + 20, NAN);
  bvtrain_cuda_group_norm({.shape = shape,
                           .tail = NormTail::relu,
                           .x_bf16 = true,
                           .y_bf16 = true,
                           .eps = kKernelEps,
                           .x = x.data(),
                           .scale = one.wide.data(),
                           .bias = one.wide.data(),
                           .shortcut = nullptr,
                           .rounded = nullptr,
                           .active = nullptr,
                           .y = y.data(),
                           .tables = tables.wide.data()},
                          nullptr);
  size_t wrong = 0;
  for (size_t i = 0; i < y.count; ++i) wrong += std::isnan(y[i]) != (i < 4 * 32 && i % 32 >= 16);
  CHECK(wrong == 0);
}

TEST_CASE("group normalisation divides an image into enough parts for a GPU") {
  const auto blocks = [](int64_t pixels, int64_t c) {
    return group_norm_cuda::tiling_of({256, pixels, c, 32}).blocks();
  };
  CHECK(blocks(112 * 112, 64) == 256 * 16);
  CHECK(blocks(56 * 56, 64) == 256 * 6);
  CHECK(blocks(56 * 56, 256) == 256 * 16);
  CHECK(blocks(14 * 14, 1024) == 256 * 6);
  CHECK(blocks(7 * 7, 2048) == 256 * 2);
}

}  // namespace
}  // namespace bv
