// Patterns: matches, rejected patterns, and that none takes long or overflows the stack.
#include "lib/util/pattern.h"

#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <regex>

#include "lib/util/error.h"
#include "test/support/clock.h"

namespace bv::test {
namespace {

const std::string kGrammar =
    " is not a valid regular expression (ECMAScript grammar: no lookbehind, no (?i), no named "
    "groups, no "
    "back-references)";

}  // namespace

TEST_CASE("a pattern matches the whole name") {
  CHECK(Pattern("head/.*").matches("head/kernel"));
  CHECK_FALSE(Pattern("head").matches("head/kernel"));
  CHECK_FALSE(Pattern("kernel").matches("head/kernel"));
  CHECK(Pattern(".*/kernel$").matches("head/kernel"));
  CHECK(Pattern("(a|ab)(c|bcd)").matches("abcd"));
  CHECK(Pattern("(?!head).*").matches("body/kernel"));
  CHECK_FALSE(Pattern("(?!head).*").matches("head/kernel"));
  CHECK(Pattern("encoderblock_[0-3]/.*|cls").matches("cls"));
  CHECK(Pattern(".*/block(0?[1-9]|1[0-2]){1,2}/.*").matches("a/block12/b"));
  CHECK(Pattern("").matches(""));
  CHECK(Pattern("\\d{2}").matches("07"));
}

TEST_CASE("texts that are not patterns") {
  for (const char* bad : {"(", ")", "[z-a]", "*", "a{2", "a{3,2}", "[[:nope:]]", "\\", "(?i)a",
                          "(?<n>a)", "(?<=a)b", "(a)\\1"}) {
    CHECK(Pattern::problem(bad) == "the pattern '" + std::string(bad) + "'" + kGrammar);
  }
  CHECK(Pattern::problem("(\n\x01") == "the pattern '(\\x0a\\x01'" + kGrammar);
  CHECK(Pattern::problem(std::string(1001, 'a')) ==
        "the pattern '" + std::string(60, 'a') +
            "...' has 1001 characters; at most 1000 are allowed");
  // Cut between two characters of UTF-8.
  CHECK(Pattern::problem(std::string(59, 'a') + std::string("\xc3\xa9(")) ==
        "the pattern '" + std::string(59, 'a') + "...'" + kGrammar);
  for (const char* large :
       {"a{100000}", "((a{100}){100}){100}", "a{99999999999999999999}",
        "((((a?){50}){50}){50}){50}", "a{1,20000}", "a{2}b{9223372036854775808}"}) {
    CHECK(Pattern::problem(large) ==
          "the pattern '" + std::string(large) + "' is too large with its repetitions written out");
  }
  CHECK_THROWS_WITH(Pattern("("), "error: the pattern '('" + kGrammar);
}

TEST_CASE("no pattern takes long, or overflows the stack") {
  const std::string name(1000, 'a');
  const double start = cpu_seconds();
  CHECK_FALSE(Pattern("(a*)*b").matches(name));
  CHECK_FALSE(Pattern("(a|a)*b").matches(name));
  CHECK_FALSE(Pattern("(a|aa)+$b").matches(name));
  CHECK_FALSE(Pattern("((a+)+)+b").matches(name));
  CHECK(Pattern(".*.*.*.*.*a").matches(name));
  CHECK(Pattern(".*").matches(std::string(1'000'000, 'a')));  // backtracking would need the stack
  // Backtracking would practically never end. With sanitizers this takes a second.
  CHECK(cpu_seconds() - start < 20);
  // The deepest pattern that is accepted: all states are active at once and none takes a character.
  CHECK(Pattern(std::string("(((a?)?)?){660}")).matches("aaa"));
  std::string nested = "a";
  while (nested.size() < 990) nested = "(" + nested + ")*";
  CHECK(Pattern(nested).matches("aaa"));
  CHECK_FALSE(Pattern(nested).matches("aab"));
}

// Without back-references both matchers accept the same language.
TEST_CASE("breadth-first and backtracking agree on random patterns") {
  std::mt19937 random(20261121);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  const char* const pieces[] = {"a",     "b",   "/",     ".",    "(",    ")",  "|",
                                "*",     "+",   "?",     "[ab]", "[^a]", "a*", "(?!a)",
                                "(?=b)", "{2}", "{0,2}", "^",    "$",    "\\b"};
  int good = 0, matched = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (int n = 1 + below(8); n > 0; --n) text += pieces[below(std::size(pieces))];
    std::optional<std::regex> plain;
    try {
      plain.emplace(text);
    } catch (const std::regex_error&) {
    }
    INFO(text);
    REQUIRE(Pattern::problem(text).empty() == plain.has_value());
    if (!plain) continue;
    ++good;
    const Pattern pattern(text);
    for (int k = 0; k < 5; ++k) {
      std::string name;
      for (int n = below(7); n > 0; --n) name += "ab/"[below(3)];
      INFO(name);
      const bool expected = std::regex_match(name, *plain);
      REQUIRE(pattern.matches(name) == expected);
      matched += expected;
    }
  }
  CHECK(good > 3000);
  CHECK(matched > 500);
}

}  // namespace bv::test
