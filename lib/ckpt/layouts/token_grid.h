#pragma once

#include <cstdint>

namespace bv {

// The grid of the tokens of an image: one for each patch. {} stands for an unknown grid, or none.
struct TokenGrid {
  int64_t rows = 0, columns = 0;

  int64_t size() const { return rows * columns; }
  bool operator==(const TokenGrid&) const = default;
};

}  // namespace bv
