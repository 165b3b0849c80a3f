// JSON output: bytes that are not UTF-8, and numbers that JSON does not have.
#include "lib/util/json_text.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

namespace bv::test {

TEST_CASE("JSON: bytes that are not UTF-8 become U+FFFD") {
  CHECK(json_text(nlohmann::json{{"argv", {"caf\xe9", "\xc3\xa9"}}}) ==
        "{\"argv\":[\"caf\xef\xbf\xbd\",\"\xc3\xa9\"]}");
  CHECK(json_text(nlohmann::ordered_json{{"b", "\xff"}, {"a", 1}}, 1) ==
        "{\n \"b\": \"\xef\xbf\xbd\",\n \"a\": 1\n}");
}

TEST_CASE("JSON: numbers that are not finite are strings") {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const double value : {1.0, 0.1, -0.0, double{NAN}, double{INFINITY}, -double{INFINITY}})
    list.push_back(json_value(value));
  CHECK(json_text(list) == R"([1.0,0.1,-0.0,"nan","inf","-inf"])");
}

}  // namespace bv::test
