// The pp mini-language: Python literals, places of errors, reading the arguments.
#include <catch2/catch.hpp>

#include "lib/config/call.h"
#include "lib/config/config.h"
#include "lib/config/load_config.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

std::vector<Call> calls(const std::string& text) { return parse_calls(text, Place{}); }

std::string refused_pp(const std::string& text) {
  return error_of([&] { parse_calls(text, Place{"--pp", 0, 0}); });
}

}  // namespace

TEST_CASE("sections become calls") {
  const auto all = calls("decode| resize(224) ||a.b.c()\n|  keep('x', \"y\") ");
  REQUIRE(all.size() == 4);
  CHECK(all[0].name == "decode");
  CHECK(all[1].name == "resize");
  CHECK(all[2].name == "a.b.c");
  CHECK(all[3].args.positional_left() == 2);
  CHECK(all[3].args.positional_strings() == std::vector<std::string>{"x", "y"});
  CHECK(all[3].args.positional_left() == 0);
  CHECK(calls("").empty());
  CHECK(calls(" | |").empty());
}

TEST_CASE("arguments are Python literals") {
  const Config c =
      calls(
          "op(-3, 1e-06, a=.5, b=1., c=True, d=False, e=None, f=[1, -2, ], g=(3, 4), h=(5), "
          "i=(6,), j=(), "
          "k={'x': 1, \"y\": [2]}, l='it\\'s \\\\ \\d\\n', m=[['p', 1], ['q', 2.5]], n='true')")[0]
          .args;
  CHECK(c.get<int64_t>("first") == -3);
  CHECK(c.get<double>("second") == 1e-6);
  CHECK(c.get<double>("a") == 0.5);
  CHECK(c.get<double>("b") == 1);
  CHECK(c.get<bool>("c"));
  CHECK_FALSE(c.get<bool>("d"));
  CHECK_FALSE(c.has("e"));
  CHECK_FALSE(c.maybe<double>("e"));
  CHECK(c.get<std::vector<int64_t>>("f") == std::vector<int64_t>{1, -2});
  CHECK(c.get<std::vector<int64_t>>("g") == std::vector<int64_t>{3, 4});
  CHECK(c.get<int64_t>("h") == 5);
  CHECK(c.get<std::vector<int64_t>>("i") == std::vector<int64_t>{6});
  CHECK(c.get<std::vector<int64_t>>("j").empty());
  CHECK(c.section("k").get<int64_t>("x") == 1);
  CHECK(c.section("k").get<std::vector<int64_t>>("y") == std::vector<int64_t>{2});
  CHECK(c.get<std::string>("l") == "it's \\ \\d\n");
  using Pairs = std::vector<std::pair<std::string, double>>;
  CHECK(c.get<Pairs>("m") == Pairs{{"p", 1}, {"q", 2.5}});
  CHECK(c.get<std::string>("n") == "true");
  c.done();
  CHECK(problem_count(c) == 0);
}

TEST_CASE("positional arguments go to the names in order") {
  const Config c = calls("resize(224, 'area')")[0].args;
  CHECK_FALSE(c.has("size"));  // has() consumes no argument
  CHECK(c.get<int64_t>("size") == 224);
  CHECK(c.get<int64_t>("size") == 224);
  CHECK(c.get("method", "bilinear") == "area");
  CHECK(c.get("antialias", true));
  CHECK(c.positional_left() == 0);
}

TEST_CASE("an argument that is given by position and by name is refused") {
  const Config c = calls("value_range(-1, 1, 0, vmax=2)")[0].args;
  CHECK(c.get<double>("vmin", 0) == -1);
  CHECK(c.get<double>("vmax", 0) == 2);
  CHECK(c.get<double>("in_min", 5) == 0);  // the positions of the others stay
  c.done();
  CHECK(error_of([&] { throw_problems(c); }) ==
        "error: value_range: argument 'vmax' is given by position and by name");
  const Config twice = calls("resize(7, method='area')")[0].args;
  for (int i = 0; i < 2; ++i) {
    CHECK(twice.get<int64_t>("size") == 7);
    CHECK(twice.get("method", "bilinear") == "area");
  }
  CHECK(problem_count(twice) == 0);
}

TEST_CASE("wrong calls point into the value") {
  const auto refused_at = [](const std::string& value, int64_t expected_size) {
    const Config c = parse_config("input:\n  pp: " + value + "\n", "x.yaml").section("input");
    const auto all = parse_calls(c.get<std::string>("pp"), c, "pp");
    return error_of([&] {
      const Config& args = all.back().args;
      const auto size = args.get("size", expected_size);
      args.get("method", "area");
      if (size <= 0) args.fail("size", fmt::format("must be positive, got {}", size));
      args.done();
      throw_problems(args);
    });
  };
  const char* line = "x.yaml:2:27: error: resize_small: size must be positive, got -3";
  CHECK(refused_at("decode|resize_small(-3)", 1) == line);
  CHECK(refused_at("'decode|resize_small(-3)'", 1) ==
        "x.yaml:2:28: error: resize_small: size must be positive, got -3");
  CHECK(refused_at("\"decode|resize_small(-3)\"", 1) ==
        "x.yaml:2:28: error: resize_small: size must be positive, got -3");
  CHECK(refused_at("'keep(\"ä\")|resize_small(-3)'", 1) ==
        "x.yaml:2:31: error: resize_small: size must be positive, got -3");
  // Escapes and folded lines shift the columns, so the place of the whole value is given.
  CHECK(refused_at("\"decode\\x7cresize_small(-3)\"", 1) ==
        "x.yaml:2:7: error: resize_small: size must be positive, got -3");
  CHECK(refused_at("decode|\n    resize_small(-3)", 1) ==
        "x.yaml:2:7: error: resize_small: size must be positive, got -3");
  CHECK(refused_at("resize('big')", 1) ==
        "x.yaml:2:14: error: resize: size: expected an integer, got 'big'");
  CHECK(refused_at("resize(size=True)", 1) ==
        "x.yaml:2:19: error: resize: size: expected an integer, got True");
  CHECK(refused_at("resize(3, method=3)", 1) ==
        "x.yaml:2:24: error: resize: method: expected a string, got 3");
  CHECK(refused_at("resize(siz=3)", 1) ==
        "x.yaml:2:14: error: resize: unknown argument 'siz' (did you mean 'size'?); the op is "
        "resize(size=1, method='area')");
  CHECK(refused_at("resize(q=3)", 1) ==
        "x.yaml:2:14: error: resize: unknown argument 'q'; the op is resize(size=1, "
        "method='area')");
  CHECK(refused_at("resize(3, 'area', 5)", 1) ==
        "x.yaml:2:25: error: resize: too many positional arguments: 3 given, 2 can be used; the op "
        "is resize(size=1, method='area')");
  CHECK(refused_at("resize(3)|resize(4, 'area', 5)", 1) ==
        "x.yaml:2:35: error: resize: too many positional arguments: 3 given, 2 can be used; the op "
        "is resize(size=1, method='area')");
}

TEST_CASE("texts that are not calls") {
  const auto at = [](const std::string& why, int character) {
    return fmt::format("--pp: error: {} (at character {} of it)", why, character);
  };
  CHECK(refused_pp("resize(1+1)") == at("expressions are not evaluated: write the value", 9));
  CHECK(refused_pp("resize(224") == at("expected ',' or ')', got the end", 11));
  CHECK(refused_pp("resize(224)x") == at("expected '|' or the end after resize, got 'x'", 12));
  CHECK(refused_pp("a|3") == at("expected the name of an op, got '3'", 3));
  CHECK(refused_pp("a.") == at("expected a name after '.', got the end", 3));
  CHECK(refused_pp("a(x=1, x=2)") == at("argument 'x' is given twice", 8));
  CHECK(refused_pp("a(x=1, 2)") == at("a positional argument after a keyword argument", 8));
  CHECK(refused_pp("a(true)") == at("expected a value, got the name 'true' (write True)", 3));
  CHECK(refused_pp("a(null)") == at("expected a value, got the name 'null' (write None)", 3));
  CHECK(refused_pp("a(method=area)") ==
        at("expected a value, got the name 'area' (a string needs quotes: 'area')", 10));
  CHECK(refused_pp("a(f(1))") ==
        at("expected a value, got the name 'f' (calls are not evaluated)", 3));
  CHECK(refused_pp("a(010)") ==
        at("expected a number, got 010 (leading zeros are an error: write 10)", 3));
  CHECK(refused_pp("a(1_000)") == at("expected a number, got 1_000 (write 1000)", 3));
  CHECK(refused_pp("a(0x10)") == at("expected a number, got 0x10", 3));
  CHECK(refused_pp("a(1j)") == at("expected a number, got 1j", 3));
  CHECK(refused_pp("a(-)") == at("expected a number, got -", 3));
  CHECK(refused_pp("a('x|y')") ==
        at("a string that is never closed (a string cannot hold '|')", 3) + "\n" +
            at("expected '|' or the end after y, got '''", 7));
  CHECK(refused_pp("a('\\x41')") ==
        at("this escape is not supported: write the character itself", 4));
  CHECK(refused_pp("a({'x' 1})") == at("expected ':', got '1'", 8));
  CHECK(refused_pp("a({'x': 1, 'x': 2})") == at("key 'x' is given twice", 12));
  CHECK(refused_pp("a([1 2])") == at("expected ',' or ']', got '2'", 6));
  CHECK(refused_pp("a(,)") == at("expected a value, got ','", 3));
  CHECK(refused_pp("a(x==1)") == at("expressions are not evaluated: write the value", 4));
  CHECK(refused_pp("a(" + std::string(40, '[')) == at("nested more than 32 levels deep", 36));
  CHECK(refused_pp(std::string(70000, 'a')) == "--pp: error: longer than 65536 bytes");
}

TEST_CASE("a text that is not a call is a problem of its config") {
  const Config c = parse_config("pp: decode|resize(1+1)|flip(\n", "x.yaml");
  const std::string lines =
      "x.yaml:1:20: error: pp: expressions are not evaluated: write the value\n"
      "x.yaml:1:29: error: pp: expected a value, got the end";
  CHECK(error_of([&] { parse_calls(c.get<std::string>("pp"), c, "pp"); }) == lines);
  CHECK(error_of([&] { throw_problems(c); }) == lines);
}

TEST_CASE("a missing argument") {
  const Config c = calls("resize()")[0].args;
  CHECK(error_of([&] { c.get<int64_t>("size"); }) ==
        "error: resize: size: missing: an integer is required");
}

}  // namespace bv::test
