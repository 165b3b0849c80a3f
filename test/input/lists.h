// Short names of the lists that tests of data compare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bv::test {

using Names = std::vector<std::string>;
using Labels = std::vector<int64_t>;

}  // namespace bv::test
