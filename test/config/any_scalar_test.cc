// Values of any kind: numbers, strings and booleans keep what they were written as.
#include "lib/config/load_config.h"
#include "test/support/error.h"

namespace bv::test {

TEST_CASE("a value of any kind keeps its kind") {
  const Config config =
      parse_config("a: 3\nb: -2.0\nc: true\nd: 'true'\ne: word\nf: 1e3\nh: '7'\n", "x.yaml");
  const auto get = [&](const char* key) { return config.get<AnyScalar>(key); };
  CHECK(get("a") == AnyScalar(int64_t{3}));
  CHECK(get("b") == AnyScalar(-2.0));
  CHECK(get("c") == AnyScalar(true));
  CHECK(get("d") == AnyScalar(std::string("true")));
  CHECK(get("e") == AnyScalar(std::string("word")));
  CHECK(get("f") == AnyScalar(1000.0));
  CHECK(get("h") == AnyScalar(std::string("7")));
  CHECK(config.get<AnyScalar>("i", std::string("single")) == AnyScalar(std::string("single")));
  config.done();
  throw_problems(config);
}

TEST_CASE("a list is not a scalar") {
  const Config config = parse_config("a: [1]\nb: {c: 1}\nd: 1_0\ne: .inf\n", "x.yaml");
  for (const char* key : {"a", "b", "e"}) config.get<AnyScalar>(key, false);
  CHECK(config.get<AnyScalar>("d") == AnyScalar(std::string("1_0")));
  CHECK(problem_count(config) == 3);
  try {
    throw_problems(config);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.what() ==
          std::string(
              "x.yaml:1:4: error: a: expected a number, a string, true or false, got a list\n"
              "x.yaml:2:4: error: b: expected a number, a string, true or false, got a mapping\n"
              "x.yaml:4:4: error: e: expected a finite number, got '.inf'"));
  }
}

}  // namespace bv::test
