// Running pp strings, and other helpers for op tests.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "lib/input/pipeline.h"
#include "test/support/compare.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/golden.h"

namespace bv::test {

inline Pipeline build_pipeline(const std::string& text) {
  return Pipeline(text, Place{"t.yaml", 3, 9});
}

inline Example run_pp(const std::string& text, Example example, uint64_t index = 0) {
  Rng rng(7, Purpose::augment, index);
  build_pipeline(text).apply(example, rng);
  return example;
}

// Return the error of building or running a pp string, "" if there is none. The string begins at
// "t.yaml:3:9".
inline std::string make_error(const std::string& text) {
  return error_of([&] { build_pipeline(text); });
}
inline std::string run_error(Exit code, const std::string& text, const Example& example) {
  return error_of([&] { run_pp(text, example); }, code);
}

// Returns noise that is a function of `index`: of uint8, float32 in [-2, 2), or an integer type
// with values 0 to 9.
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

}  // namespace bv::test
