#include "lib/input/sources/common/brace_expansion.h"

#include <catch2/catch.hpp>

#include "test/input/lists.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

std::string expansion_problem(const std::string& text) {
  return error_of([&] { brace_expansion(text); });
}

}  // namespace

// The expected lists are bash's output for `echo <text>`.
TEST_CASE("braces stand for what a shell makes of them", "[braces]") {
  CHECK(brace_expansion("a.tar") == Names{"a.tar"});
  CHECK(brace_expansion("") == Names{""});
  CHECK(brace_expansion("a,b.tar") == Names{"a,b.tar"});
  CHECK(brace_expansion("t-{0..3}.tar") == Names{"t-0.tar", "t-1.tar", "t-2.tar", "t-3.tar"});
  CHECK(brace_expansion("{08..11}") == Names{"08", "09", "10", "11"});
  CHECK(brace_expansion("{8..011}") == Names{"008", "009", "010", "011"});
  CHECK(brace_expansion("{000..002}") == Names{"000", "001", "002"});
  CHECK(brace_expansion("{3..1}") == Names{"3", "2", "1"});
  CHECK(brace_expansion("{0..10..4}") == Names{"0", "4", "8"});
  CHECK(brace_expansion("{10..0..4}") == Names{"10", "6", "2"});
  CHECK(brace_expansion("{0..10..-4}") == Names{"0", "4", "8"});
  CHECK(brace_expansion("{-1..1}") == Names{"-1", "0", "1"});
  CHECK(brace_expansion("{-01..1}") == Names{"-01", "000", "001"});
  CHECK(brace_expansion("{7..7}") == Names{"7"});
  CHECK(brace_expansion("{a..d}") == Names{"a", "b", "c", "d"});
  CHECK(brace_expansion("{d..a..2}") == Names{"d", "b"});
  CHECK(brace_expansion("{train,val}-0") == Names{"train-0", "val-0"});
  CHECK(brace_expansion("x{,y}") == Names{"x", "xy"});
  CHECK(brace_expansion("{a,b}{1..2}") == Names{"a1", "a2", "b1", "b2"});
  CHECK(brace_expansion("{a{1..2},c,{d,e}x}z") == Names{"a1z", "a2z", "cz", "dxz", "exz"});
  CHECK(brace_expansion("{{1..2},{8..9}}") == Names{"1", "2", "8", "9"});
}

TEST_CASE("as many names as allowed, and no more", "[braces]") {
  CHECK(brace_expansion("{1..1000000}").size() == 1'000'000);
  const std::string many =
      "expands to more than 1000000 files, or their names take more than 256 MiB";
  for (const char* text : {"{0..1000000}", "{1..1000}{1..1001}", "{{1..600000},{1..600000}}",
                           "{-99999999999999999..99999999999999999}"})
    CHECK(expansion_problem(text) == "error: '" + std::string(text) + "' " + many);
  CHECK_THAT(expansion_problem("{1..1000000}" + std::string(300, 'x')), Catch::Contains(many));
  std::string doubled;
  for (int i = 0; i < 64; ++i) doubled += "{a,b}";
  CHECK_THAT(expansion_problem(doubled), Catch::Contains(many));
}

TEST_CASE("braces that mean nothing are errors", "[braces]") {
  CHECK(expansion_problem("a-{0..3.tar") == "error: 'a-{0..3.tar': '{' without '}' at character 3");
  CHECK(expansion_problem("a-{b,c") == "error: 'a-{b,c': '{' without '}' at character 3");
  CHECK(expansion_problem("a-0}.tar") == "error: 'a-0}.tar': '}' without '{' at character 4");
  CHECK(expansion_problem("{000-127}") ==
        "error: '{000-127}': '{000-127}' is neither a range such as {000..127} nor alternatives "
        "such as {a,b} at character 1");
  for (const char* text : {"{}", "{a}", "{1..}", "{..2}", "{1..b}", "{1..2..0}", "{1..2..3..4}",
                           "{1...3}", "{ 1..3}", "{1..99999999999999999999}"})
    CHECK_THAT(expansion_problem(text), Catch::Contains("is neither a range"));
  CHECK(expansion_problem("{{1..2}}") ==
        "error: '{{1..2}}': braces without a range or a ',' at character 1");
  CHECK_THAT(expansion_problem(std::string(33, '{')),
             Catch::Contains("braces nested more than 32 deep"));
  CHECK_THAT(expansion_problem(std::string(100'000, '{')),
             Catch::Contains("nested more than 32 deep"));
}

}  // namespace bv::test
