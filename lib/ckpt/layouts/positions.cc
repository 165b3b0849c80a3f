// Resampling of position embeddings (models/vit.py, `resample_posemb`).
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {

namespace {

struct Grid {
  int64_t height = 0, width = 0;
};

// Returns n x n for the shape (1, n * n, D) and h x w for (1, h, w, D). nullopt if the number of
// positions is not a square.
std::optional<Grid> grid_of(at::IntArrayRef shape) {
  if (shape.size() == 4) return Grid{shape[1], shape[2]};
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(shape[1]))));
  if (side * side == shape[1]) return Grid{side, side};
  return std::nullopt;
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

at::Tensor resample_positions(const at::Tensor& old, const std::vector<int64_t>& shape,
                              const std::string& origin) {
  const auto usable = [](at::IntArrayRef s) {
    return (s.size() == 3 || s.size() == 4) && s[0] == 1 &&
           std::all_of(s.begin(), s.end(), [](int64_t size) { return size > 0; });
  };
  const auto refuse = [&](const std::string& why) {
    throw Error(Exit::usage, origin,
                fmt::format("pos_embedding has shape {} in the file but {} in the model{}",
                            shape_text(old.sizes()), shape_text(shape), why));
  };
  if (!usable(old.sizes()) || !usable(shape) || old.size(-1) != shape.back()) refuse("");
  const std::optional<Grid> from_grid = grid_of(old.sizes()), to_grid = grid_of(shape);
  if (!from_grid) refuse(fmt::format("; {} positions do not form a square", old.size(1)));
  if (!to_grid) refuse(fmt::format("; {} positions do not form a square", shape[1]));
  const Grid from = *from_grid, to = *to_grid;
  const int64_t features = shape.back();
  const at::Tensor source = old.to(at::kDouble).contiguous();
  const at::Tensor target = at::empty(shape, at::kFloat);
  const double* in = source.const_data_ptr<double>();
  float* out = target.mutable_data_ptr<float>();
  for (int64_t y = 0; y < to.height; ++y) {
    const Neighbours row = neighbours(y, to.height, from.height);
    for (int64_t x = 0; x < to.width; ++x) {
      const Neighbours column = neighbours(x, to.width, from.width);
      const auto corner = [&](int64_t dy, int64_t dx) {
        const int64_t r = std::min(row.low + dy, from.height - 1);
        const int64_t c = std::min(column.low + dx, from.width - 1);
        return in + (r * from.width + c) * features;
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
