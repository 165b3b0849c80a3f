// The cases of test/config/wrong_yaml.txt, each with its exact error lines.
#include <catch2/catch.hpp>
#include <set>

#include "lib/config/load_config.h"
#include "test/support/error.h"
#include "test/support/text.h"
#include "test/support/wrong_configs.h"

namespace bv::test {

TEST_CASE("texts that are no config") {
  std::set<std::string> names;
  for (const WrongConfig& wrong : read_wrong_configs(BV_TEST_DIR "/config/wrong_yaml.txt")) {
    INFO(wrong.name);
    CHECK(names.insert(wrong.name).second);
    CHECK(!wrong.expected.empty());
    const WrongEnvironment environment(wrong);
    std::vector<Override> sets;
    for (const auto& [key, value] : wrong.sets)
      sets.push_back({key, value, "--set " + key + "=" + value});
    CHECK(error_of([&] { parse_config(wrong.text, "x.yaml", sets); }) == wrong.expected);
  }
  CHECK(names.size() >= 60);
}

TEST_CASE("characters of web pages that look like a blank or a colon are named") {
  const auto problem = [](const std::string& text) {
    return error_of([&] { parse_config(text, "x.yaml"); });
  };
  CHECK(problem("a: 1\nlr:\u00a00.001\nb: 2\n") ==
        "x.yaml:2:4: error: a non-breaking space (U+00A0): write a usual space");
  CHECK(problem("a: 1\nlr:\u200b0.001\nb: 2\n") ==
        "x.yaml:2:4: error: an invisible character (U+200B): delete it");
  CHECK(problem("a: 1\nlr\uff1a0.001\nb: 2\n") ==
        "x.yaml:2:3: error: a full-width colon (U+FF1A): write ':' and a space");
  // They are no fault in quotes, in comments and in values.
  CHECK_FALSE(
      contains(problem("a: 'x\u00a0y'  # \u00a0\nc: d\u00a0e\nlr 0.001\nb: 2\n"), "U+00A0"));
  CHECK_FALSE(contains(problem("a:\n- x\uff1ay\nlr 0.001\nb: 2\n"), "U+FF1A"));
}

}  // namespace bv::test
