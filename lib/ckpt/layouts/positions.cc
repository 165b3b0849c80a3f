// Resampling of position embeddings (models/vit.py, `resample_posemb`).
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {

namespace {

// Returns whether `shape` is (1, N, D) or (1, h, w, D).
bool is_position_shape(at::IntArrayRef shape) {
  return (shape.size() == 3 || shape.size() == 4) && shape[0] == 1 &&
         std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size > 0; });
}

// Position j of n is between the old positions low and low + 1.
struct Neighbours {
  int64_t low;
  double weight;  // of the position low + 1
};
Neighbours neighbours(int64_t j, int64_t n, int64_t old) {
  if (n < 2 || old < 2) return {0, 0};
  const double x =
      static_cast<double>(j) * static_cast<double>(old - 1) / static_cast<double>(n - 1);
  const int64_t low = std::min(static_cast<int64_t>(x), old - 2);
  return {low, std::min(x - static_cast<double>(low), 1.0)};
}

}  // namespace

TokenGrid square_grid(int64_t positions) {
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(positions))));
  return side * side == positions ? TokenGrid{side, side} : TokenGrid{};
}

TokenGrid position_grid(at::IntArrayRef shape, TokenGrid known) {
  if (!is_position_shape(shape)) return {};
  if (shape.size() == 4) return {shape[1], shape[2]};
  return known.size() == shape[1] ? known : square_grid(shape[1]);
}

at::Tensor resample_positions(const at::Tensor& old, const std::vector<int64_t>& shape,
                              const std::string& origin, TokenGrid from, TokenGrid to) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Exit::usage, origin,
                fmt::format("pos_embedding has shape {} in the file but {} in the model{}",
                            shape_text(old.sizes()), shape_text(shape), why));
  };
  if (!is_position_shape(old.sizes()) || !is_position_shape(shape) || old.size(-1) != shape.back())
    refuse("");
  from = position_grid(old.sizes(), from);
  to = position_grid(shape, to);
  if (from.size() == 0) refuse(fmt::format("; {} positions do not form a square", old.size(1)));
  if (to.size() == 0) refuse(fmt::format("; {} positions do not form a square", shape[1]));
  const int64_t features = shape.back();
  const at::Tensor source = old.to(at::kDouble).contiguous();
  const at::Tensor target = at::empty(shape, at::kFloat);
  const double* in = source.const_data_ptr<double>();
  float* out = target.mutable_data_ptr<float>();
  for (int64_t y = 0; y < to.rows; ++y) {
    const Neighbours row = neighbours(y, to.rows, from.rows);
    for (int64_t x = 0; x < to.columns; ++x) {
      const Neighbours column = neighbours(x, to.columns, from.columns);
      const auto corner = [&](int64_t dy, int64_t dx) {
        const int64_t r = std::min(row.low + dy, from.rows - 1);
        const int64_t c = std::min(column.low + dx, from.columns - 1);
        return in + (r * from.columns + c) * features;
      };
      const double *a = corner(0, 0), *b = corner(0, 1), *c = corner(1, 0), *d = corner(1, 1);
      for (int64_t i = 0; i < features; ++i) {
        const double top = a[i] + (b[i] - a[i]) * column.weight;
        const double bottom = c[i] + (d[i] - c[i]) * column.weight;
        *out++ = static_cast<float>(top + (bottom - top) * row.weight);
      }
    }
  }
  return target;
}

}  // namespace bv
