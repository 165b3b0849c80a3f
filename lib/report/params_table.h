// The table of parameters in the log.
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

// Returns a text table with the name, shape, size, mean and standard deviation of each parameter,
// one per line, and the total size below it.
std::string params_table(const std::vector<ParamRow>& rows);

}  // namespace bv
