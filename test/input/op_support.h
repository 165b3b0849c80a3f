// Running pp strings in tests.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "lib/input/op.h"
#include "test/input/files.h"

namespace bv {

inline Pipeline pipeline(const std::string& text) { return Pipeline(text, Place{"t.yaml", 3, 9}); }

inline Example run_pp(const std::string& text, Example example, uint64_t index = 0) {
  Rng rng(7, Purpose::augment, index);
  pipeline(text).apply(example, rng);
  return example;
}

// The error of making or of running a pp string; "t.yaml:3:9" is where the string begins.
inline std::string make_error(const std::string& text) {
  return error_of(Exit::usage, [&] { pipeline(text); });
}
inline std::string run_error(Exit code, const std::string& text, const Example& example) {
  return error_of(code, [&] { run_pp(text, example); });
}

// Reproducible noise; `dtype` is uint8, float32 or an integer type (0 .. 9).
inline at::Tensor noise(std::vector<int64_t> shape, at::ScalarType dtype, uint64_t index = 0) {
  Rng rng(11, Purpose::synthetic, index);
  at::Tensor out = at::empty(shape, at::kDouble);
  double* values = out.mutable_data_ptr<double>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    const double u = rng.uniform();
    values[i] = dtype == at::kByte    ? std::floor(256 * u)
                : dtype == at::kFloat ? 4 * u - 2
                                      : std::floor(10 * u);
  }
  return out.to(dtype);
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(),
                     a.nbytes()) == 0;
}

}  // namespace bv
