// Where the arrays made by the reference's code lie: $BVTRAIN_SHARED/golden (default ../shared from
// the project's root).
#pragma once

#include <ATen/core/Tensor.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace bv {

// "" (and a printed line) where there is no such file.
inline std::string golden_file(const std::string& name) {
  const char* shared = std::getenv("BVTRAIN_SHARED");
  const std::string root = shared && *shared ? shared : std::string(BV_SOURCE_DIR) + "/../shared";
  const std::string file = root + "/golden/" + name;
  if (std::filesystem::exists(file)) return file;
  WARN("skipped: no " << file);
  return "";
}

// |a - b| <= atol + rtol * |b| everywhere, shapes equal.
inline bool close(const at::Tensor& a, const at::Tensor& b, double rtol, double atol) {
  return a.sizes() == b.sizes() && at::allclose(a.to(at::kDouble), b.to(at::kDouble), rtol, atol);
}

}  // namespace bv
