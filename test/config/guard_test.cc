// What YAML and yaml-cpp would accept but the guard rejects, each with its exact line.
#include <catch2/catch.hpp>

#include "lib/config/config.h"
#include "lib/config/load_config.h"
#include "test/support/clock.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

std::string refused_yaml(const std::string& text) {
  return error_of([&] { parse_config(text, "x.yaml"); });
}

}  // namespace

TEST_CASE("duplicate keys name both lines") {
  CHECK(refused_yaml("a: 1\nb: 2\na: 3\n") ==
        "x.yaml:3:1: error: duplicate key 'a' (first at line 1)");
  CHECK(refused_yaml("s:\n  k: 1\n  \"k\": 2\nt: {z: 1, z: 1, z: 2}\n") ==
        "x.yaml:3:3: error: duplicate key 'k' (first at line 2)\n"
        "x.yaml:4:11: error: duplicate key 'z' (first at line 4)\n"
        "x.yaml:4:17: error: duplicate key 'z' (first at line 4)");
}

TEST_CASE("only one document") {
  CHECK(refused_yaml("a: 1\n---\nb: 2\n") ==
        "x.yaml:2:1: error: a second document ('---'): a config has one");
  CHECK(refused_yaml("a: 1\n...\nb: 2\n") ==
        "x.yaml:3:1: error: not valid YAML: unexpected text after the end");
  CHECK(refused_yaml("- a: 1\nb: 2\n") ==
        "x.yaml:2:1: error: 'b' is not aligned with any key above it: 'a' (line 1) begins in "
        "column 3");
  CHECK(parse_config("---\na: 1\n", "x.yaml").get<int64_t>("a") == 1);
}

TEST_CASE("bytes that are not text") {
  CHECK(refused_yaml("a: 1\nb: \xFF\n") == "x.yaml:2:1: error: invalid UTF-8");
  CHECK(refused_yaml(std::string("a: 1\nbc: \0\n", 11)) == "x.yaml:2:5: error: a NUL byte");
  CHECK(refused_yaml("a: \"\\0\"\n") == "x.yaml:1:4: error: a NUL byte");
  CHECK(refused_yaml(std::string("\xFF\xFE"
                                 "a\0:\0",
                                 6)) == "x.yaml: error: is UTF-16 text: save the file as UTF-8");
  CHECK(refused_yaml(std::string((1 << 20) + 1, ' ')) ==
        "x.yaml: error: larger than 1048576 bytes");
  CHECK(parse_config("\xEF\xBB\xBF"
                     "a: 1",
                     "x.yaml")
            .get<int64_t>("a") == 1);  // a byte order mark
  CHECK(parse_config("a: 1\r\nb: 2\r\n", "x.yaml").get<int64_t>("a") == 1);
}

TEST_CASE("aliases neither cycle nor explode") {
  CHECK(refused_yaml("a: &x [*x]\n") == "x.yaml:1:8: error: an alias that contains itself");
  CHECK(refused_yaml("a: &x\n  b: {c: *x}\n") ==
        "x.yaml:2:10: error: an alias that contains itself");
  CHECK(refused_yaml("a: *x\n") ==
        "x.yaml:1:4: error: '*x' refers to '&x', which is not defined: put it in quotes if it is a "
        "string");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 1; k < 10; ++k) bomb += ", " + last;
    bomb += "]\n";
  }
  const double start = cpu_seconds();
  CHECK(refused_yaml(bomb) == "x.yaml:6:45: error: more than 1000000 values (aliases expanded)");
  CHECK(cpu_seconds() - start < 0.2);
  const Config c = parse_config("a: &x {k: 1}\nb: *x\n", "x.yaml");
  CHECK(c.section("b").get<int64_t>("k") == 1);
  CHECK(c.section("a").get<int64_t>("k") == 1);
}

TEST_CASE("nesting is limited") {
  const auto nested = [](int n) {
    return "a: " + std::string(n, '[') + std::string(n, ']') + "\n";
  };
  CHECK(refused_yaml(nested(63)).empty());
  CHECK(refused_yaml(nested(64)) == "x.yaml:1:67: error: nested more than 64 levels deep");
  CHECK(refused_yaml(std::string(100000, '[')).find("nested more than 64 levels deep") !=
        std::string::npos);
  CHECK(refused_yaml("a: " + std::string(2000, '{')).find("nested more than 64 levels deep") !=
        std::string::npos);
  std::string deep;
  for (int i = 0; i < 70; ++i) deep += std::string(i, ' ') + "k:\n";
  CHECK(refused_yaml(deep) == "x.yaml:65:65: error: nested more than 64 levels deep");
  // Depth that an alias hides.
  CHECK(refused_yaml("a: &x " + std::string(40, '[') + std::string(40, ']') +
                     "\nb: " + std::string(40, '[') + "*x" + std::string(40, ']')) ==
        "x.yaml:2:44: error: nested more than 64 levels deep");
}

TEST_CASE("merge keys are merged") {
  const Config c = parse_config(
      "base: &b {k: 1, l: 2}\nmore: &m {l: 3, n: 4}\none: {<<: *b, k: 5}\ntwo: {<<: [*m, *b]}\n"
      "none: {<<: *b, k: null, o: null}\n",
      "x.yaml");
  CHECK(c.section("one").json() == R"({"k": 5, "l": 2})");
  CHECK(c.section("two").json() == R"({"l": 3, "n": 4, "k": 1})");
  CHECK(c.section("none").json() == R"({"o": null, "l": 2})");
  CHECK(refused_yaml("a: {<<: 3}\n") ==
        "x.yaml:1:5: error: '<<' takes a mapping or a list of mappings, got '3'");
}

TEST_CASE("tags, odd keys, open quotes, tabs") {
  CHECK(refused_yaml("a: !!float 5\n") ==
        "x.yaml:1:4: error: YAML tags ('!...') are not supported: write the plain value");
  CHECK(refused_yaml("a: !foo\nb: 1\n") ==
        "x.yaml:1:4: error: YAML tags ('!...') are not supported: write the plain value");
  CHECK(refused_yaml("a: ! b\n") ==
        "x.yaml:1:4: error: YAML tags ('!...') are not supported: write the plain value");
  CHECK(refused_yaml("[a]: 1\n") == "x.yaml:1:1: error: a key must be a plain name");
  CHECK(refused_yaml("? {a: 1}\n: 2\n") == "x.yaml:1:3: error: a key must be a plain name");
  CHECK(refused_yaml("a: {~: 2}\n") == "x.yaml:1:5: error: a key must be a plain name");
  CHECK(refused_yaml("'': 2\n") == "x.yaml:1:1: error: a key must be a plain name");
  CHECK(refused_yaml("a: 'x\n") == "x.yaml:1:4: error: a quote that is never closed");
  CHECK(refused_yaml("a: \"x\\\"\n\n") == "x.yaml:1:4: error: a quote that is never closed");
  CHECK(refused_yaml("a: 'x''\nb: 2\n") == "x.yaml:1:4: error: a quote that is never closed");
  CHECK(refused_yaml("a: 1\nb: [1, {c: 2}\n") ==
        "x.yaml:2:4: error: a bracket that is never closed");
  CHECK(refused_yaml("a: {b: 1\n") == "x.yaml:1:4: error: a bracket that is never closed");
  CHECK(refused_yaml("a: \"") == "x.yaml:1:4: error: a quote that is never closed");
  CHECK(refused_yaml("a:\n\tb: 1\n") ==
        "x.yaml:2:1: error: a tab in the indentation: indent with spaces, not tabs");
  CHECK(refused_yaml("a:\n  b: 1\n\tc: 1\n") ==
        "x.yaml:3:1: error: a tab in the indentation: indent with spaces, not tabs");
  CHECK(refused_yaml("a: b: c\n") ==
        "x.yaml:1:5: error: a second ': ' in this line: put the value in quotes");
}

TEST_CASE("a config is a mapping") {
  CHECK(refused_yaml("") == "x.yaml: error: the config is empty");
  CHECK(refused_yaml("# only a comment\n") == "x.yaml: error: the config is empty");
  CHECK(refused_yaml("~") == "x.yaml: error: the config is empty");
  CHECK(refused_yaml("- a\n") ==
        "x.yaml:1:1: error: expected a mapping ('key: value' lines) at the top level, got a list");
  CHECK(refused_yaml("lr:0.1\n") ==
        "x.yaml:1:1: error: expected a mapping ('key: value' lines) at the top level, got 'lr:0.1' "
        "(a space must follow the ':')");
}

TEST_CASE("a very long line is read in linear time") {
  std::string text = "ä: [";
  for (int i = 0; i < 100'000; ++i) text += "1,";
  const double start = cpu_seconds();
  CHECK(refused_yaml(text + "]\n").empty());
  CHECK(cpu_seconds() - start < 5);  // in quadratic time: a minute
  CHECK(refused_yaml("ä: [a, &x b, *y]\n") ==
        "x.yaml:1:14: error: '*y' refers to '&y', which is not defined: put it in quotes if it is "
        "a string");
}

TEST_CASE("too many keys in one mapping") {
  std::string text;
  for (int i = 0; i <= 10000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  CHECK(refused_yaml(text) == "x.yaml:10001:1: error: more than 10000 keys in one mapping");
}

}  // namespace bv::test
