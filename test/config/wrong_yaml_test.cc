// The cases of test/config/wrong_yaml.txt, each with its exact error lines.
#include <catch2/catch.hpp>
#include <set>

#include "lib/config/load_config.h"
#include "test/support/error.h"
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

}  // namespace bv::test
