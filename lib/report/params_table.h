// The parameter overview table of the log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bv {

struct ParamRow {
  std::string name;
  std::vector<int64_t> shape;
  double mean = 0, std = 0;
  bool frozen = false;
};

// Name, shape, size, mean, std, one parameter a line, with a total; names and frames as text.
std::string params_table(const std::vector<ParamRow>& rows);

}  // namespace bv
