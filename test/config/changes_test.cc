// The keys in which two configs differ.
#include "lib/config/changes.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"

namespace bv::test {
namespace {

// Returns the changes as lines. The reader of the new config reads `lr` (default 0.1) and
// `schedule.warmup` (default 0).
std::vector<std::string> changes(const std::string& before, const std::string& now) {
  const Config config = parse_config(now, "now.yaml");
  config.get<double>("lr", 0.1);
  config.section("schedule").get<int64_t>("warmup", 0);
  std::vector<std::string> lines;
  for (const ConfigChange& change : config_changes(parse_config(before, "before.yaml"), config))
    lines.push_back(change.text());
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("changed, added and removed keys have one line each") {
  CHECK(
      changes("{seed: 1, lr: 0.5, model: {depth: 2}}", "{lr: 0.25, model: {depth: 2, width: 8}}") ==
      Lines{"lr: 0.5 -> 0.25", "model.width: not set -> 8", "seed: 1 -> not set"});
  CHECK(changes("{pp: 'decode|flip_lr', l: [1, 2]}", "{pp: decode, l: [1, 3]}") ==
        Lines{"pp: decode|flip_lr -> decode", "l: [1, 2] -> [1, 3]"});
}

TEST_CASE("defaults, null and other spellings of a number are no changes") {
  CHECK(changes("{model: {depth: 2}}", "{lr: 0.1, model: {depth: 2}, schedule: {warmup: 0}}") ==
        Lines{});
  CHECK(changes("{lr: 0.1, evals: null}", "{evals: null}") == Lines{});
  CHECK(changes("{lr: 0.001, n: 1000}", "{lr: 1e-3, n: 1e3}") == Lines{});
  CHECK(changes("{lr: 0.2}", "{}") == Lines{"lr: 0.2 -> 0.1"});
  CHECK(changes("{}", "{schedule: {warmup: 3}}") == Lines{"schedule.warmup: 0 -> 3"});
}

TEST_CASE("a null with a meaning of its own is a value") {
  const auto lines = [](const std::string& before, const std::string& now) {
    const Config config = parse_config(now, "now.yaml");
    const Config optax = config.section("optax");
    if (!optax.keep_null("momentum")) optax.get<double>("momentum", 0.9);
    Lines changed;
    for (const ConfigChange& change : config_changes(parse_config(before, "before.yaml"), config))
      changed.push_back(change.text());
    return changed;
  };
  const std::string null = "{optax: {momentum: null}}", given = "{optax: {momentum: 0.9}}";
  CHECK(lines(null, given) == Lines{"optax.momentum: null -> 0.9"});
  CHECK(lines(null, "{}") == Lines{"optax.momentum: null -> 0.9"});
  CHECK(lines(given, null) == Lines{"optax.momentum: 0.9 -> null"});
  CHECK(lines(null, null) == Lines{});
  CHECK(lines(given, "{}") == Lines{});
  // Of configs that no code has read, all nulls of the optimizer count.
  const auto unread = [](const std::string& before, const std::string& now) {
    return config_changes(parse_config(before, "a.yaml"), parse_config(now, "b.yaml")).size();
  };
  CHECK(unread(null, "{}") == 1);
  CHECK(unread("{mixup: null}", "{}") == 0);
}

TEST_CASE("other blanks between ops are no change") {
  CHECK(changes("{pp: \"decode|resize(8, 'a b')|flip_lr\"}",
                "{pp: \"decode | resize(8,'a b')\\n |flip_lr \"}") == Lines{});
  CHECK(changes("{pp: \"keep('a b')\"}", "{pp: \"keep('ab')\"}") ==
        Lines{"pp: keep('a b') -> keep('ab')"});
  CHECK(changes("{note: a b}", "{note: a  b}").size() == 1);
}

TEST_CASE("another spelling of a text that looks like a number is a change") {
  const auto lines = [](const std::string& before, const std::string& now) {
    const Config config = parse_config(now, "now.yaml");
    const Config data = config.section("data");
    data.get<std::string>("dir");
    data.get("classes", std::vector<std::string>());
    config.get("k", std::string());
    config.get<int64_t>("k", 1);  // the same key, read for a name and for its value
    Lines changed;
    for (const ConfigChange& change : config_changes(parse_config(before, "before.yaml"), config))
      changed.push_back(change.text());
    return changed;
  };
  const std::string now = "{data: {dir: 2024.10, classes: [0.50, 1]}, k: 2}";
  CHECK(lines("{data: {dir: '2024.10', classes: ['0.50', 1]}, k: 2}", now) == Lines{});
  CHECK(lines("{data: {dir: 2024.1, classes: [0.5, 1]}, k: 2e0}", now) ==
        Lines{"data.dir: 2024.1 -> 2024.10", "data.classes: [0.5, 1] -> [0.50, 1]"});
}

TEST_CASE("a number and a text that looks like one differ") {
  CHECK(changes("{name: 10}", "{name: '10'}") == Lines{"name: 10 -> \"10\""});
}

}  // namespace bv::test
