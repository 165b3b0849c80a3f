#include "lib/util/text_table.h"

#include <catch2/catch.hpp>

namespace bv::test {

TEST_CASE("text table: columns are aligned by characters, not by bytes") {
  CHECK(
      aligned({{{"name", "\u00e9t\u00e9", "a"}}, {{"size", "1", "100"}, true}, {{"", "x", ""}}}) ==
      std::vector<std::string>{"name  size", "\u00e9t\u00e9      1  x", "a      100"});
  CHECK(aligned({}).empty());
}

}  // namespace bv::test
