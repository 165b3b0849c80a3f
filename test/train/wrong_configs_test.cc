// Catalogues of wrong configs, each with its exact error lines. They are read in this process, as
// in a run with --explain.
#include <catch2/catch.hpp>
#include <set>

#include "lib/config/load_config.h"
#include "lib/train/recipe.h"
#include "lib/util/text.h"
#include "test/support/error.h"
#include "test/support/wrong_configs.h"

namespace bv::test {
namespace {

// Returns the lines of `text` by their top-level keys, in order.
std::vector<std::pair<std::string, std::string>> top_level(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    if (line[0] != ' ') parts.push_back({line.substr(0, line.find(':')), ""});
    parts.back().second += line + "\n";
  }
  return parts;
}

// Returns the text of a case, followed by the parts of `base` that it does not replace.
std::string laid_over(const std::string& base, const WrongConfig& wrong) {
  std::set<std::string> left_out(wrong.without.begin(), wrong.without.end());
  for (const auto& [key, text] : top_level(wrong.text)) left_out.insert(key);
  std::string all = wrong.text;
  for (const auto& [key, text] : top_level(base)) {
    if (!left_out.contains(key)) all += text;
  }
  return all;
}

std::string case_problems(const std::string& text, const WrongConfig& wrong) {
  const WrongEnvironment environment(wrong);
  std::vector<Override> sets;
  for (const auto& [key, value] : wrong.sets)
    sets.push_back({key, value, "--set " + key + "=" + value});
  return error_of([&] {
    const Config config = parse_config(text, "x.yaml", sets);
    const Recipe recipe(config, /*synthetic=*/false, /*meta=*/true);
  });
}

std::vector<WrongConfig> catalogue(const std::string& name) {
  return read_wrong_configs(BV_TEST_DIR "/train/" + name);
}

// The first case of wrong_configs.txt, in which nothing is wrong.
WrongConfig base_config() { return catalogue("wrong_configs.txt").front(); }

}  // namespace

TEST_CASE("nothing is wrong with the config on which the catalogue is based") {
  CHECK(case_problems(base_config().text, {}).empty());
}

TEST_CASE("nothing is wrong with a config for training if no step is trained") {
  WrongConfig keys;
  keys.text =
      "total_steps: 0\nckpt_percent: 0.1\nnan: rollback\nprofile: {}\n"
      "schedule: {decay_type: rsqrt, timescale_percent: 0.1}\n";
  const Config config = parse_config(laid_over(base_config().text, keys), "x.yaml");
  const Recipe recipe(config, /*synthetic=*/false, /*meta=*/true);
  CHECK_FALSE(recipe.nan_rolls_back);  // so it needs no workdir
}

TEST_CASE("wrong configs say where, what, and what to write") {
  const WrongConfig base = base_config();
  std::set<std::string> names;
  for (const char* file : {"wrong_configs.txt", "familiar_configs.txt"}) {
    for (const WrongConfig& wrong : catalogue(file)) {
      if (wrong.name == base.name) continue;
      INFO(wrong.name);
      CHECK(names.insert(wrong.name).second);
      CHECK(!wrong.expected.empty());
      CHECK(case_problems(laid_over(base.text, wrong), wrong) == wrong.expected);
    }
  }
  CHECK(names.size() >= 200);
}

TEST_CASE("a message lists no key as known that is refused") {
  std::string text = base_config().text;
  text.insert(text.find("model_name"), "  fn: 1\n");  // below input
  const std::string line = case_problems(text, {});
  CHECK(line.find("error: unknown key 'input.fn'; known here: ") != std::string::npos);
  CHECK(line.find("pre_filter_fn") == std::string::npos);
}

TEST_CASE("several faults are told at once, without their consequences") {
  const std::vector<WrongConfig> cases = catalogue("several_faults.txt");
  CHECK(cases.size() >= 15);
  for (const WrongConfig& wrong : cases) {
    INFO(wrong.name);
    CHECK(split(wrong.expected, '\n').size() >= 4);
    CHECK(case_problems(wrong.text, wrong) == wrong.expected);
  }
}

}  // namespace bv::test
