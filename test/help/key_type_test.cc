// Key types: how they are parsed, described and written as JSON Schema.
#include "lib/help/key_type.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lib/util/error.h"

namespace bv::test {
namespace {

std::string words(std::string_view type) { return type_in_words(parse_key_type(type)); }
std::string schema(std::string_view type) {
  return type_schema(parse_key_type(type), "the.path").dump();
}

}  // namespace

TEST_CASE("a type is said in words") {
  CHECK(words("int") == "integer");
  CHECK(words("int >= 1 | 'auto'") == "integer of at least 1 or auto");
  CHECK(words("float > 0") == "number above 0");
  CHECK(words("float 0..1") == "number from 0 to 1");
  CHECK(words("float 0..<1") == "number of at least 0 and below 1");
  CHECK(words("float 0<..100") == "number above 0 and at most 100");
  CHECK(words("float 0<..<1") == "number above 0 and below 1");
  CHECK(words("float -1..0.5") == "number from -1 to 0.5");
  CHECK(words("list of string") == "list of string");
  CHECK(words("list of (int >= 1 | null)") == "list of integer of at least 1 or null");
  CHECK(words("list of [string, float]") == "list of [string, number]");
  CHECK(words("bool | 'a b' | null") == "true or false, a b or null");
  CHECK(words("map") == "mapping");
  CHECK(words("map of input.data") == "mapping");
  CHECK(words("map of float") == "mapping to number");
  CHECK(words("map of map of evals.*") == "mapping to mapping");
}

TEST_CASE("a type as JSON Schema allows the same values, and null for an absent key") {
  CHECK(
      schema("int >= 1") ==
      R"({"anyOf":[{"type":"integer","minimum":1.0},{"type":"null"},{"$ref":"#/definitions/variable"}]})");
  CHECK(
      schema("float > 0") ==
      R"({"anyOf":[{"type":"number","exclusiveMinimum":0.0},{"type":"null"},{"$ref":"#/definitions/variable"}]})");
  CHECK(
      schema("float 0..1") ==
      R"({"anyOf":[{"type":"number","minimum":0.0,"maximum":1.0},{"type":"null"},{"$ref":"#/definitions/variable"}]})");
  CHECK(
      schema("float 0<..<1") ==
      R"({"anyOf":[{"type":"number","exclusiveMinimum":0.0,"exclusiveMaximum":1.0},{"type":"null"},{"$ref":"#/definitions/variable"}]})");
  CHECK(
      schema("'gap' | 'false'") ==
      R"({"anyOf":[{"const":"gap"},{"const":false},{"type":"null"},{"$ref":"#/definitions/variable"}]})");
  CHECK(schema("'0'") ==
        R"({"anyOf":[{"enum":["0",0]},{"type":"null"},{"$ref":"#/definitions/variable"}]})");
  CHECK(schema("map") == R"({"anyOf":[{"$ref":"#/definitions/the.path"},{"type":"null"}]})");
  CHECK(schema("map of input.data") ==
        R"({"anyOf":[{"$ref":"#/definitions/input.data"},{"type":"null"}]})");
  CHECK(
      schema("list of [string, float]") ==
      R"({"anyOf":[{"type":"array","items":{"type":"array","items":[{"type":["string","number","boolean"]},{"anyOf":[{"type":"number"},{"$ref":"#/definitions/variable"}]}],"minItems":2,"maxItems":2}},{"type":"null"}]})");
  CHECK(
      schema("map of map of evals.*") ==
      R"({"anyOf":[{"type":"object","additionalProperties":{"anyOf":[{"$ref":"#/definitions/evals.*"},{"type":"null"}]}},{"type":"null"}]})");
}

TEST_CASE("a type that cannot be read is a bug in a table") {
  for (const char* bad : {"", "integer", "int >=", "list", "[int", "'auto", "int | ", "0..1"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_key_type(bad), Error);
  }
}

}  // namespace bv::test
