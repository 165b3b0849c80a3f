#include "lib/model/init.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <utility>

#include "lib/util/rng.h"

namespace bv {
namespace {

// The inverse of the error function in single precision: M. Giles, "Approximating the erfinv
// function", GPU Computing Gems vol. 2, 2010.
float inverse_erf(float x) {
  float w = -std::log((1.0f - x) * (1.0f + x));
  float p;
  if (w < 5.0f) {
    w -= 2.5f;
    p = 2.81022636e-08f;
    p = 3.43273939e-07f + p * w;
    p = -3.5233877e-06f + p * w;
    p = -4.39150654e-06f + p * w;
    p = 0.00021858087f + p * w;
    p = -0.00125372503f + p * w;
    p = -0.00417768164f + p * w;
    p = 0.246640727f + p * w;
    p = 1.50140941f + p * w;
  } else {
    w = std::sqrt(w) - 3.0f;
    p = -0.000200214257f;
    p = 0.000100950558f + p * w;
    p = 0.00134934322f + p * w;
    p = -0.00367342844f + p * w;
    p = 0.00573950773f + p * w;
    p = -0.0076224613f + p * w;
    p = 0.00943887047f + p * w;
    p = 1.00167406f + p * w;
    p = 2.83297682f + p * w;
  }
  return p * x;
}

// Fills `parameter` with map(u). u is uniform in (-1, 1) with 24 bits; its distribution is
// symmetric and excludes 0 and +-1.
template <class Map>
void draw(at::Tensor& parameter, uint64_t key, const Map& map) {
  const at::Tensor values = at::empty(parameter.sizes(), at::kFloat);  // row-major, on the CPU
  float* out = values.data_ptr<float>();
  const int64_t n = values.numel();
  const std::array<uint32_t, 2> words = {static_cast<uint32_t>(key),
                                         static_cast<uint32_t>(key >> 32)};
  at::parallel_for(0, (n + 3) / 4, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const auto bits = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(Purpose::init),
                                static_cast<uint32_t>(block >> 32), 0},
                               words);
      for (int64_t i = 4 * block; i < std::min(4 * block + 4, n); ++i) {
        const auto centred = static_cast<int32_t>(bits[i % 4] >> 8) * 2 + 1 - (1 << 24);
        out[i] = map(static_cast<float>(centred) * 0x1p-24f);
      }
    }
  });
  parameter.copy_(values);
}

Init truncated_normal(double variance) {
  // 0.8796... is the standard deviation of a standard normal truncated at +-2.
  const auto stddev = static_cast<float>(std::sqrt(variance) / 0.87962566103423978);
  const auto edge = static_cast<float>(std::erf(2.0 / std::sqrt(2.0)));
  return [stddev, edge](at::Tensor& parameter, uint64_t key) {
    draw(parameter, key, [=](float u) {
      return stddev * std::clamp(std::sqrt(2.0f) * inverse_erf(u * edge), -2.0f, 2.0f);
    });
  };
}

}  // namespace

Init constant(double value) {
  return [value](at::Tensor& parameter, uint64_t) { parameter.fill_(value); };
}
Init zeros() { return constant(0); }
Init ones() { return constant(1); }

Init normal(double stddev) {
  const auto scale = static_cast<float>(stddev * std::sqrt(2.0));
  return [scale](at::Tensor& parameter, uint64_t key) {
    draw(parameter, key, [=](float u) { return scale * inverse_erf(u); });
  };
}

Init uniform(double bound) {
  const auto scale = static_cast<float>(bound);
  return [scale](at::Tensor& parameter, uint64_t key) {
    draw(parameter, key, [=](float u) { return scale * u; });
  };
}

Init lecun_normal(int64_t fan_in) { return truncated_normal(1.0 / static_cast<double>(fan_in)); }
Init he_normal(int64_t fan_in) { return truncated_normal(2.0 / static_cast<double>(fan_in)); }

Init xavier_uniform(int64_t fan_in, int64_t fan_out) {
  return uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

Init identity(Init rest) {
  return [rest = std::move(rest)](at::Tensor& parameter, uint64_t key) {
    rest(parameter, key);
    const int64_t channels = std::min(parameter.size(2), parameter.size(3));
    parameter.narrow(3, 0, channels).zero_();
    const int64_t centre = parameter.size(0) / 2;
    parameter.select(0, centre).select(0, centre).diagonal().fill_(1);  // (min(in, out))
  };
}

Init stacked(Init init) {
  return [init = std::move(init)](at::Tensor& parameter, uint64_t key) {
    for (int64_t i = 0; i < parameter.size(0); ++i) {
      at::Tensor slice = parameter.select(0, i);
      const auto mixed =
          philox({static_cast<uint32_t>(i), static_cast<uint32_t>(Purpose::init), 0, 1},
                 {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
      init(slice, uint64_t{mixed[0]} << 32 | mixed[1]);
    }
  };
}

}  // namespace bv
