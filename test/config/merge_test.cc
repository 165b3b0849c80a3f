// Included files, the environment and the command line.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/config/call.h"
#include "lib/config/config.h"
#include "lib/config/load_config.h"
#include "lib/util/file.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

Config with(const std::string& text, const std::vector<std::pair<std::string, std::string>>& sets) {
  std::vector<Override> overrides;
  for (const auto& [key, value] : sets) {
    overrides.push_back({key, value, "--set " + key + "=" + value});
  }
  return parse_config(text, "x.yaml", overrides);
}

}  // namespace

TEST_CASE("null removes a key of the included file, also from a mapping") {
  const TempFolder folder;
  folder.write("base.yaml", "model: {width: 64, dense: 2}\n");
  const std::string file =
      folder.write("run.yaml", "include: base.yaml\nmodel: {dense: null, depth: null}\n");
  CHECK(load_config(file, {}).json() == R"({"model": {"width": 64, "depth": null}})");
}

TEST_CASE("a null whose meaning a component asks for stays, although it removes a key") {
  const TempFolder folder;
  folder.write("root.yaml", "optax: {momentum: 0.5, decay: 1}\n");
  folder.write("base.yaml", "include: root.yaml\noptax: {momentum: null, decay: null}\n");
  const std::string file = folder.write("run.yaml", "include: base.yaml\noptax: {eps: 2}\n");
  const auto read = [](const Config& config) {
    const Config optax = config.section("optax");
    CHECK(optax.keep_null("momentum"));
    CHECK_FALSE(optax.keep_null("eps"));
    CHECK_FALSE(optax.keep_null("other"));
    CHECK(optax.get<double>("eps") == 2);
    config.done();
    throw_problems(config);
  };
  const Config c = load_config(file, {});
  CHECK(c.json() == R"({"optax": {"eps": 2}})");
  read(c);
  CHECK(c.json() == R"({"optax": {"eps": 2, "momentum": null}})");
  read(parse_config_json(c.json(), "manifest.json"));
  read(parse_config(resolved_yaml(c), "config.yaml"));
  const auto is_null = [&](const std::string& value) {
    return load_config(file, {{"optax.momentum", value, "--set"}})
        .section("optax")
        .keep_null("momentum");
  };
  CHECK(is_null("null"));
  folder.write("run.yaml", "include: base.yaml\noptax: {momentum: 0.7}\n");
  CHECK(is_null("null"));
  CHECK_FALSE(is_null("0.9"));
  folder.write("base.yaml", "include: root.yaml\noptax: {momentum: null}\n");
  folder.write("run.yaml", "include: base.yaml\noptax: {momentum: 0.7}\n");
  CHECK_FALSE(load_config(file, {}).section("optax").keep_null("momentum"));
}

TEST_CASE("an including file overrides the included one") {
  const TempFolder folder;
  folder.write(
      "base/base.yaml",
      "include: ../root.yaml\nmodel: {width: 64, depth: 2}\nlist: [1, 2]\ntotal_epochs: 90\n");
  folder.write("root.yaml", "seed: 3\nmodel: {depth: 1, norm: batch}\n");
  const std::string file = folder.write(
      "run.yaml",
      "include: base/base.yaml\nmodel: {width: 128}\nlist: [3]\ntotal_steps: 5\nseed: null\n");
  const Config c = load_config(file, {});
  CHECK(c.json() ==
        R"({"model": {"depth": 2, "norm": "batch", "width": 128}, "list": [3], "total_steps": 5})");
  c.section("model").get<int64_t>("width");
  CHECK(c.section("model").place("depth").text() == folder.path() + "/base/base.yaml:2:27");
}

TEST_CASE("errors of an include have the place of the include") {
  const TempFolder folder;
  const std::string a = folder.write("a.yaml", "x: 1\ninclude: b.yaml\n");
  CHECK(error_of([&] { load_config(a, {}); }) ==
        a + ":2:10: error: include: '" + folder.path() + "/b.yaml': no such file");
  const std::string f = folder.write("f.yaml", "include: .\n");
  CHECK(error_of([&] { load_config(f, {}); }) ==
        f + ":1:10: error: include: '" + folder.path() + "/': is a folder");
  const std::string b = folder.write("b.yaml", "include: a.yaml\n");
  CHECK(error_of([&] { load_config(a, {}); }) ==
        b + ":1:10: error: include: '" + a + "' includes itself");
  folder.write("b.yaml", "k: 1\nk: 2\n");
  CHECK(error_of([&] { load_config(a, {}); }) ==
        b + ":2:1: error: duplicate key 'k' (first at line 1)");
  CHECK(error_of([&] { parse_config("include: [a]\n", "x.yaml"); }) ==
        "x.yaml:1:10: error: include: expected a file name, got a list");
  // An unset variable is one fault, not also a file that does not exist.
  ::unsetenv("BV_TEST_NONE");
  CHECK(error_of([] { parse_config("include: ${BV_TEST_NONE}/b.yaml\n", "x.yaml"); }) ==
        "x.yaml:1:10: error: the environment variable BV_TEST_NONE is not set or empty "
        "(${BV_TEST_NONE:-value} gives a default)");
}

TEST_CASE("what a config from a pipe includes is in the working folder") {
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  const std::string text = "include: nowhere.yaml\n";
  REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  const std::string file = fmt::format("/dev/fd/{}", ends[0]);
  CHECK(error_of([&] { load_config(file, {}); }) ==
        file + ":1:10: error: include: 'nowhere.yaml': no such file");
  ::close(ends[0]);
}

TEST_CASE("files that are not configs") {
  const TempFolder folder;
  CHECK(error_of([&] { load_config(folder.path(), {}); }) ==
        folder.path() + ": error: is a folder");
  CHECK(error_of([&] { load_config(folder.path() + "/no.yaml", {}); }) ==
        folder.path() + "/no.yaml: error: no such file");
  const std::string empty = folder.write("empty.yaml", "");
  CHECK(error_of([&] { load_config(empty, {}); }) == empty + ": error: the config is empty");
}

TEST_CASE("the environment in values") {
  ::setenv("BV_TEST_LR", "0.5", 1);
  ::setenv("BV_TEST_EMPTY", "", 1);
  ::unsetenv("BV_TEST_NONE");
  const Config c = parse_config(
      "lr: ${BV_TEST_LR}\nn: ${BV_TEST_NONE:-128}\ns: a${BV_TEST_LR}b$${X}c$\nq: '${BV_TEST_LR}'\n"
      "e: ${BV_TEST_EMPTY:-full}\nz: ${BV_TEST_NONE:-}\n",
      "x.yaml");
  CHECK(c.get<double>("lr") == 0.5);
  CHECK(c.get<int64_t>("n") == 128);
  CHECK(c.get<std::string>("s") == "a0.5b${X}c$");
  CHECK(c.get<std::string>("q") == "0.5");
  CHECK(c.get<std::string>("e") == "full");
  CHECK_FALSE(c.has("z"));
  CHECK(error_of([&] { parse_config("a: ${BV_TEST_NONE}\nb: ${1 2}\nc: ${x\n", "x.yaml"); }) ==
        "x.yaml:1:4: error: the environment variable BV_TEST_NONE is not set or empty "
        "(${BV_TEST_NONE:-value} gives a default)\n"
        "x.yaml:2:4: error: '${1 2}' is not the name of an environment variable\n"
        "x.yaml:3:4: error: '${' without '}'");
  CHECK(error_of([&] { parse_config("a: x/${BV_TEST_NONE:-${HOME}/w}\n", "x.yaml"); }) ==
        "x.yaml:1:4: error: '${BV_TEST_NONE:-${HOME}': it cannot contain another '${'");
  ::setenv("BV_TEST_LR", "\xFF", 1);
  CHECK(error_of([&] { parse_config("a: ${BV_TEST_LR}\n", "x.yaml"); }) ==
        "x.yaml:1:4: error: the environment variable holds invalid UTF-8");
}

TEST_CASE("a variable in quotes, as within brackets, may be a number, a boolean or null") {
  ::setenv("BV_TEST_N", "16", 1);
  ::setenv("BV_TEST_NAME", "007", 1);
  ::unsetenv("BV_TEST_NONE");
  const Config c = parse_config(
      "a: {n: \"${BV_TEST_N}\", x: ['${BV_TEST_N}', '${BV_TEST_NONE:-0.5}'], z: "
      "'${BV_TEST_NONE:-null}',\n"
      "    b: '${BV_TEST_NONE:-true}', name: '${BV_TEST_NAME}', s: '${BV_TEST_N}', e: "
      "'${BV_TEST_NONE:-}',\n"
      "    two: '${BV_TEST_N}${BV_TEST_N}', lit: '$${1}'}\n",
      "x.yaml");
  const Config a = c.section("a");
  CHECK(a.get<int64_t>("n") == 16);
  CHECK(a.get<std::vector<double>>("x") == std::vector<double>{16, 0.5});
  CHECK_FALSE(a.has("z"));
  CHECK(a.get<bool>("b"));
  CHECK(a.get<std::string>("name") == "007");
  CHECK(a.get<std::string>("s") == "16");
  CHECK(a.get<std::string>("e", "x") == "");
  CHECK(a.get<std::string>("lit") == "${1}");
  CHECK(
      error_of([&] { a.get<int64_t>("two"); }) ==
      "x.yaml:3:10: error: a.two: expected an integer, got the string '1616' (remove the quotes)");
}

TEST_CASE("the command line replaces values") {
  const Config c = with("a: {b: 1, c: 2}\nl: [{k: 1}, 2]\n", {{"a.b", "x"},
                                                              {"new.deep.key", "[1, 'two']"},
                                                              {"l.0.k", "5"},
                                                              {"l.1", "6"},
                                                              {"a.c", "null"},
                                                              {"a.z", "null"},
                                                              {"t", ""}});
  CHECK(
      c.json() ==
      R"({"a": {"b": "x", "z": null}, "l": [{"k": 5}, 6], "new": {"deep": {"key": [1, "two"]}}, "t": null})");
  CHECK(error_of([&] { c.section("a").get<double>("b"); }) ==
        "--set a.b=x: error: a.b: expected a number, got 'x'");
}

TEST_CASE("null on the command line removes a key, whatever its name") {
  const Config c = with("lr: 1\nmodel: {width: 64, depth: 2}\n", {{"model.depth", "3"},
                                                                  {"model.depth", "null"},
                                                                  {"model.depth", "null"},
                                                                  {"modle", "null"},
                                                                  {"lr", "null"}});
  const Config model = c.section("model");
  CHECK(model.json() == R"({"width": 64})");
  model.get<int64_t>("width");
  CHECK(error_of([&] { c.get<double>("lr"); }) ==
        "--set lr=null: error: lr: has no value: a number is required");
  c.done(/*although_incomplete=*/true);
  CHECK(error_of([&] { throw_problems(c); }) ==
        "--set lr=null: error: lr: has no value: a number is required\n"
        "--set modle=null: error: unknown key 'modle' (did you mean 'model'?)");
  CHECK(with("a: {b: 1}\n", {{"a", "null"}, {"a.c", "2"}}).json() == R"({"a": {"c": 2}})");
}

TEST_CASE("a negative duration replaces the included one in another unit") {
  const TempFolder folder;
  folder.write("base.yaml", "ckpt_epochs: 1\nlog_epochs: 2\n");
  const std::string file =
      folder.write("run.yaml", "include: base.yaml\nckpt_steps: -1\nlog_steps: null\n");
  const Config c = load_config(file, {});
  CHECK_FALSE(c.has("ckpt_epochs"));
  CHECK(c.get<int64_t>("ckpt_steps") == -1);
  CHECK(c.has("log_epochs"));
}

TEST_CASE("a null removes a key only once, also of an alias below '<<'") {
  const TempFolder folder;
  folder.write("root.yaml", "evals: {val: {k: 1}, on: {k: 2}}\n");
  folder.write("base.yaml", "include: root.yaml\nevals: {val: null}\n");
  const std::string file =
      folder.write("run.yaml", "include: base.yaml\nevals: {val: null, vall: null}\n");
  CHECK(load_config(file, {}).json() == R"({"evals": {"on": {"k": 2}, "vall": null}})");
  folder.write("run.yaml",
               "include: root.yaml\nsome: &s {val: {k: 3}}\nevals: {<<: *s, val: null}\n");
  CHECK(load_config(file, {}).json() ==
        R"({"evals": {"on": {"k": 2}}, "some": {"val": {"k": 3}}})");
}

TEST_CASE("the command line reaches keys with dots") {
  const std::string file =
      "evals:\n  val: {log_steps: 5}\n  val.v2: {log_epochs: 1, data: {split: a}}\n";
  CHECK(
      with(file, {{"evals.val.v2.log_steps", "7"},
                  {"evals.val.v2.data.split", "b"},
                  {"evals.val.log_steps", "6"}})
          .json() ==
      R"({"evals": {"val": {"log_steps": 6}, "val.v2": {"data": {"split": "b"}, "log_steps": 7}}})");
  CHECK(with(file, {{"evals.val.v2", "null"}, {"evals.val.v2", "null"}}).json() ==
        R"({"evals": {"val": {"log_steps": 5}}})");
  CHECK(
      with(file, {{"evals.val.v3", "1"}}).json() ==
      R"({"evals": {"val": {"log_steps": 5, "v3": 1}, "val.v2": {"log_epochs": 1, "data": {"split": "a"}}}})");
}

TEST_CASE("values below an evaluator whose name begins with another's are not below that one") {
  const Config config = with("evals: {val: {k: 1}, val.v2: {k: 2}}",
                             {{"evals.val.v2.k", "3"}, {"evals.val", "{k: 4}"}});
  CHECK(config.json() == R"({"evals": {"val": {"k": 4}, "val.v2": {"k": 3}}})");
}

TEST_CASE("a value on the command line has no comment") {
  const auto line = [](const std::string& value) {
    return error_of([&] { with("a: 1\n", {{"a", value}}); });
  };
  const std::string why =
      ": error: the '#' begins a comment of YAML: put the value in YAML's quotes, as in --set "
      "'KEY=\"a #b\"'";
  for (const std::string value : {"b #c/", "#c/", "[1, 2]  # two", "it's #1", "'b' #c"})
    CHECK(line(value) == "--set a=" + value + why);
  for (const std::string value :
       {"b#c", "'b #c'", "{k: \"b \\\" #c\"}", "['it''s #1']", "'#c'", "- \"b #c\"",
        "# the content of a file\nb: 1\n  # another comment\nc: 2"})
    CHECK(line(value).empty());
  CHECK(!line("b: 1\nc: 2 #d").empty());
}

TEST_CASE("a value on the command line does not drop an earlier one below it") {
  const std::string file = "model: {width: 8, dense: 2}\n";
  CHECK(error_of([&] {
          with(file, {{"model.dense", "5"}, {"model", "{width: 4}"}});
        }) ==
        "--set model={width: 4}: error: would replace the value of '--set model.dense=5'; "
        "give this one first");
  CHECK(with(file, {{"model", "{width: 4}"}, {"model.dense", "5"}}).json() ==
        R"({"model": {"width": 4, "dense": 5}})");
  CHECK(with(file, {{"model.dense", "5"}, {"model", "null"}}).json() == "{}");
  CHECK(with(file, {{"model.dense", "5"}, {"model.dense", "6"}}).json() ==
        R"({"model": {"width": 8, "dense": 6}})");
}

TEST_CASE("a value on the command line may contain what a file may not substitute") {
  CHECK(with("a: 1\n", {{"a", "${HOME_OF_NOBODY}"}}).get<std::string>("a") == "${HOME_OF_NOBODY}");
}

TEST_CASE("a change through one alias does not affect another") {
  const Config c = with("a: &x {k: 1}\nb: *x\n", {{"b.k", "2"}});
  CHECK(c.json() == R"({"a": {"k": 1}, "b": {"k": 2}})");
}

TEST_CASE("command lines that do not fit the config") {
  const auto line = [](const std::string& key, const std::string& value) {
    return error_of([&] { with("a: 1\nl: [1, 2]\n", {{key, value}}); });
  };
  CHECK(line("a.b", "2") == "--set a.b=2: error: a is '1', not a mapping");
  CHECK(line("l.2", "2") == "--set l.2=2: error: l is a list of 2, which has no item '2'");
  CHECK(line("l.x", "2") == "--set l.x=2: error: l is a list of 2, which has no item 'x'");
  CHECK(line("a..b", "2") ==
        "--set a..b=2: error: a key is written as 'a.b.c', without empty parts");
  CHECK(line("a", "[1") == "--set a=[1: error: a bracket that is never closed");
  CHECK(line("a", "{k: 1, k: 2}") ==
        "--set a={k: 1, k: 2}: error: duplicate key 'k' (first at the same place)");
  const Config c = with("model: {width: 1}\n", {{"modle.width", "3"}});
  c.section("model").get<int64_t>("width");
  c.done();
  CHECK(error_of([&] { throw_problems(c); }) ==
        "--set modle.width=3: error: unknown key 'modle' (did you mean 'model'?)");
}

TEST_CASE("a duration on the command line replaces the file's other units") {
  const std::string file = "total_epochs: 90\ns: {warmup_steps: 5, warmup_x: 1}\nlog_steps: 50\n";
  CHECK(with(file, {{"total_steps", "3"}}).json() ==
        R"({"s": {"warmup_steps": 5, "warmup_x": 1}, "log_steps": 50, "total_steps": 3})");
  CHECK(with(file, {{"s.warmup_epochs", "1"}, {"log_seconds", "2.5"}}).json() ==
        R"({"total_epochs": 90, "s": {"warmup_x": 1, "warmup_epochs": 1}, "log_seconds": 2.5})");
  // Null replaces nothing, but "none" does. Two units on the command line stay two.
  CHECK(with(file, {{"total_steps", "null"}}).has("total_epochs"));
  CHECK(with("ckpt_epochs: 1\n", {{"ckpt_steps", "-1"}}).json() == R"({"ckpt_steps": -1})");
  const Config two = with(file, {{"total_steps", "3"}, {"total_epochs", "1"}});
  CHECK(two.has("total_steps"));
  CHECK(two.has("total_epochs"));
  CHECK(parse_config_json(R"({"log_steps": 5})", "m.json", {{"log_epochs", "1", "--set"}}).json() ==
        R"({"log_epochs": 1})");  // the config of a checkpoint
}

TEST_CASE("a config that was written as JSON is read without the environment") {
  const Config config = parse_config_json(R"({"a": "${HOME}/x", "b": "$${y}"})", "manifest.json",
                                          {{"c", "z", "--set c=z"}});
  CHECK(config.get<std::string>("a") == "${HOME}/x");
  CHECK(config.get<std::string>("b") == "$${y}");
  CHECK(config.get<std::string>("c") == "z");
}

TEST_CASE("messages about a config that was written as JSON name keys, not columns of its line") {
  const Config config =
      parse_config_json(R"({"model": {"width": "x", "depths": [1, "y"]}})", "manifest.json");
  const Config model = config.section("model");
  CHECK(config.place("model").text() == "manifest.json: model");
  CHECK(model.place("width").text() == "manifest.json: model.width");
  CHECK(error_of([&] {
          model.get<int64_t>("width");
        }).starts_with("manifest.json: error: model.width: expected an integer"));
  CHECK(error_of([&] {
          model.get<std::vector<int64_t>>("depths");
        }).starts_with("manifest.json: error: model.depths[1]: expected an integer"));
  model.warn("width", "is odd");
  CHECK(warnings(config) ==
        std::vector<std::string>{"manifest.json: warning: model.width: is odd"});
  const Config ops = parse_config_json(R"({"pp": "flip("})", "manifest.json");
  CHECK(error_of([&] {
          parse_calls(ops.get<std::string>("pp"), ops, "pp");
        }).starts_with("manifest.json: error: pp: "));
  const Config other = parse_config_json(R"({"widht": 1})", "manifest.json");
  other.get<int64_t>("width", 2);
  other.done();
  CHECK(error_of([&] { throw_problems(other); }) ==
        "manifest.json: error: unknown key 'widht' (did you mean 'width'?)");
}

}  // namespace bv::test
