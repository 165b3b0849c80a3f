// Output about a config: the resolved YAML, --explain, YAML and JSON.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <sstream>

#include "lib/config/call.h"
#include "lib/config/config.h"
#include "lib/config/load_config.h"
#include "test/support/clock.h"
#include "test/support/error.h"

namespace bv::test {

TEST_CASE("the resolved config holds defaults and origins and loads again") {
  const std::string text =
      "seed: 1\nmodel: {name: vit, width: 768}\npp: 'decode|resize(224)'\n"
      "evals:\n  val: {type: c}\nlr_mults: [[head, 2], ['.*', 1]]\nstages: [{n: 1}, {n: 2}]\n"
      "off: null\nquoted: '010'\n";
  const auto read = [](const Config& c) {
    std::string seen;
    seen += fmt::format("{} {} ", c.get("seed", int64_t{0}), c.get("lr", 1e-6));
    const Config model = c.section("model");
    seen += model.get<std::string>("name") +
            fmt::format(" {} {} ", model.get("width", int64_t{3}), model.get("dropout", 0.0));
    seen += c.section("schedule").get("decay", "cosine");
    seen += c.get("text", "007 and: so #on");
    seen += c.get<std::string>("pp");
    for (const auto& [name, e] : c.section("evals").items())
      seen += name + e.get<std::string>("type") + e.get("split", "test[:5]");
    for (const auto& [pattern, v] : c.get<std::vector<std::pair<std::string, double>>>("lr_mults"))
      seen += fmt::format("{}={} ", pattern, v);
    for (const Config& s : c.sections("stages"))
      seen += fmt::format("{} {}", s.get<int64_t>("n"), s.get("m", true));
    seen += fmt::format("{}", fmt::join(c.get("sizes", std::vector<int64_t>{3, 4}), "/"));
    seen += c.get<std::string>("quoted") + c.maybe<std::string>("none").value_or("-");
    c.has("off");
    c.done();
    throw_problems(c);
    return seen;
  };
  const Config c = parse_config(text, "x.yaml", {{"model.width", "32", "--set model.width=32"}});
  const std::string seen = read(c);
  const std::string resolved = resolved_yaml(c);
  CHECK(resolved ==
        "seed: 1  # x.yaml:1\n"
        "model:\n"
        "  name: vit  # x.yaml:2\n"
        "  width: 32  # --set model.width=32\n"
        "  dropout: 0  # default\n"
        "pp: decode|resize(224)  # x.yaml:3\n"
        "evals:\n"
        "  val:\n"
        "    type: c  # x.yaml:5\n"
        "    split: \"test[:5]\"  # default\n"
        "lr_mults: [[head, 2], [\".*\", 1]]  # x.yaml:6\n"
        "stages:\n"
        "  -\n"
        "    n: 1  # x.yaml:7\n"
        "    m: true  # default\n"
        "  -\n"
        "    n: 2  # x.yaml:7\n"
        "    m: true  # default\n"
        "off: null  # x.yaml:8\n"
        "quoted: \"010\"  # x.yaml:9\n"
        "lr: 1e-06  # default\n"
        "schedule:\n"
        "  decay: cosine  # default\n"
        "text: \"007 and: so #on\"  # default\n"
        "sizes: [3, 4]  # default\n");
  CHECK(read(parse_config(resolved, "config.yaml")) == seen);
}

// It is one line, whatever was typed, so that the file loads again.
TEST_CASE("the origin of a value from the command line is what was typed there") {
  const std::string text = "[a,\n b, " + std::string(100, 'x') + "]";
  const Config c = parse_config("lr: 1\nm: {n: 1}\n", "x.yaml",
                                {{"lr", "2", "--config.lr=2"},
                                 {"m", "{n: [1, 2], o: {p: 3}}", "--set m={n: [1, 2], o: {p: 3}}"},
                                 {"text", text, "--set text=" + text}});
  c.get<double>("lr");
  const std::string resolved = resolved_yaml(c);
  CHECK_THAT(resolved, Catch::StartsWith("lr: 2  # --config.lr=2\n"
                                         "m:\n"
                                         "  n: [1, 2]  # --set m={n: [1, 2], o: {p: 3}}\n"
                                         "  o:\n"
                                         "    p: 3  # --set m={n: [1, 2], o: {p: 3}}\n"));
  CHECK_THAT(resolved, Catch::Contains("# --set text=[a,\\n b, xxxxxxxx"));
  CHECK(parse_config(resolved, "config.yaml").json() == c.json());
}

TEST_CASE("the resolved config keeps any text in a list and in a mapping on one line") {
  for (char c = ' '; c <= '~'; ++c) {
    const std::string one(1, c);
    for (const std::string& text : {"a" + one + "b", "a" + one, one + "b", "a " + one + " b",
                                    "a" + one + " b", "a " + one + "b", one}) {
      std::string quoted;
      for (const char each : text) {
        if (each == '"' || each == '\\') quoted += '\\';
        quoted += each;
      }
      quoted = "\"" + quoted + "\"";
      INFO(quoted);
      const Config config =
          parse_config(fmt::format("l: [[{0}, 2], x]\nm: {{k: {0}}}\nt: {0}\n", quoted), "x.yaml");
      CHECK(parse_config(resolved_yaml(config), "config.yaml").json() == config.json());
    }
  }
}

TEST_CASE("a key with two different defaults has none in the resolved config") {
  const Config c = parse_config("a: 1\n", "x.yaml");
  c.get("b", int64_t{1});
  c.get("b", int64_t{2});
  CHECK(resolved_yaml(c) == "a: 1  # x.yaml:1\n");
}

TEST_CASE("explain names value, default, origin and the line of the read") {
  const Config c = parse_config("lr: 0.1\nmodel: {width: 3}\npp: 'resize(224)'\n", "x.yaml",
                                {{"seed", "5", "--set seed=5"}});
  const int lr_line = __LINE__ + 1;
  c.get("lr", 0.001);
  c.get("wd", 0.5);
  c.get<int64_t>("seed");
  c.section("model").get("width", int64_t{1});
  const auto calls = parse_calls(c.get<std::string>("pp"), c, "pp");
  calls[0].args.get<int64_t>("size");
  const std::string text = explain(c);
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words),
                      std::istream_iterator<std::string>());
  }
  const auto row = [&](size_t i, int size) {
    return std::vector<std::string>(rows.at(i).begin(), rows[i].begin() + size);
  };
  using Row = std::vector<std::string>;
  CHECK(rows[1] == Row{"lr", "0.1", "0.001", "x.yaml:1",
                       fmt::format("test/config/resolved_test.cc:{}", lr_line)});
  CHECK(row(2, 4) == Row{"wd", "0.5", "0.5", "default"});
  CHECK(row(3, 5) == Row{"seed", "5", "-", "--set", "seed=5"});
  CHECK(row(4, 4) == Row{"model", "...", "-", "x.yaml:2"});
  CHECK(row(5, 4) == Row{"model.width", "3", "1", "x.yaml:2"});
  CHECK(row(6, 4) == Row{"pp", "resize(224)", "-", "x.yaml:3"});
  CHECK(row(7, 5) == Row{"pp[0]:", "resize.size", "224", "-", "x.yaml:3"});
}

TEST_CASE("explain shows what a word has come to mean; the resolved config keeps the word") {
  const Config c = parse_config("model: {size: auto}\n", "x.yaml");
  c.get("precision", "auto");
  c.section("model").get("size", "auto");
  c.explain_as("precision", "bf16");
  c.explain_as("precision", "float32");  // the last call counts
  c.section("model").explain_as("size", "12");
  c.explain_as("unread", "1");
  const std::string text = explain(c);
  CHECK(text.find("\nprecision   auto (float32)  auto ") != std::string::npos);
  CHECK(text.find("\nmodel.size  auto (12)       auto ") != std::string::npos);
  CHECK(text.find("unread") == std::string::npos);
  CHECK(resolved_yaml(c).find("precision: auto  # default") != std::string::npos);
}

TEST_CASE("explain and the resolved config show lists of pairs of strings") {
  using StringPairs = std::vector<std::pair<std::string, std::string>>;
  const Config c = parse_config("rules: [[a, b], ['.*', 'f(x=1)']]\n", "x.yaml");
  CHECK(c.get<StringPairs>("rules") == StringPairs{{"a", "b"}, {".*", "f(x=1)"}});
  const StringPairs fallback = {{"act_batch", "data"}};
  CHECK(c.get("others", fallback) == fallback);
  CHECK_FALSE(c.maybe<StringPairs>("none"));
  const std::string text = explain(c);
  CHECK_THAT(text, Catch::Contains("[[a, b], [\".*\", f(x=1)]]") && Catch::Contains("x.yaml:1  "));
  CHECK_THAT(text, Catch::Contains("others  [[act_batch, data]]       [[act_batch, data]]"));
  CHECK(resolved_yaml(c) ==
        "rules: [[a, b], [\".*\", f(x=1)]]  # x.yaml:1\n"
        "others: [[act_batch, data]]  # default\n");
}

TEST_CASE("YAML and JSON texts keep the values") {
  const Config c = parse_config(
      "a: '1'\nb: 1\nc: .5\nd: \"x\\ny\\t\\\\\\\"\\x01 é\"\ne: 'null'\nf: ~\ng: []\nh: {}\n"
      "i: [a, 'b, c', [1, {k: v}]]\n'odd: key': '#no'\nj: $${X}\nk: 'true'\nl: true\nm: '- x'\nn: "
      "-x\no: ''\n"
      "p: .inf\nq: 010\nr: '$$$${a}'\n\"<<\": 'a b'\ns: a#b\nt: 'x '\nu: '---'\nv: |\n  two\n  "
      "lines\n",
      "x.yaml");
  CHECK(
      c.json() ==
      R"({"a": "1", "b": 1, "c": 0.5, "d": "x\ny\t\\\"\u0001 é", "e": "null", "f": null, "g": [], "h": {}, )"
      R"("i": ["a", "b, c", [1, {"k": "v"}]], "odd: key": "#no", "j": "${X}", "k": "true", "l": true, "m": "- x", )"
      R"("n": "-x", "o": "", "p": ".inf", "q": "010", "r": "$$${a}", "<<": "a b", "s": "a#b", "t": "x ", "u": "---", "v": "two\nlines\n"})");
  const Config again = parse_config(c.yaml(), "y.yaml");
  CHECK(again.json() == c.json());
  CHECK(parse_config(again.yaml(), "z.yaml").yaml() == again.yaml());
  CHECK(c.section("h").yaml() == "{}\n");
}

// A checkpoint stores the JSON text before later programs read its keys.
TEST_CASE("in JSON a number keeps its spelling, because its key may be read as a text") {
  const Config c = parse_config(
      "classes: [0.50, 1.00, -0.0]\ndir: 2024.10\nlr: 1e-6\nn: 1E+3\nplus: +1\nleft: -.50\n"
      "right: 5.\nlong: 12345678901234567890\nlarge: 1e999\n",
      "x.yaml");
  CHECK(c.json() ==
        R"({"classes": [0.50, 1.00, -0.0], "dir": 2024.10, "lr": 1e-6, "n": 1E+3, "plus": 1, )"
        R"("left": -0.5, "right": 5, "long": 12345678901234567890, "large": "1e999"})");
  CHECK(c.json("classes") == "[0.50, 1.00, -0.0]");
  const Config again = parse_config_json(c.json(), "manifest.json");
  CHECK(again.json() == c.json());
  CHECK(again.get<std::vector<std::string>>("classes") ==
        std::vector<std::string>{"0.50", "1.00", "-0.0"});
  CHECK(again.get<std::string>("dir") == "2024.10");
  CHECK(again.get<double>("lr") == 1e-6);
  CHECK(again.get<int64_t>("n") == 1000);
}

// Returns the shortest of 20 times that a call takes, in seconds of CPU time.
template <class Call>
double shortest(const Call& call) {
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const double start = cpu_seconds();
    call();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

TEST_CASE("a config takes at most four times as long to load as yaml-cpp takes to parse it") {
  std::string text;
  for (int i = 0; i < 60; ++i) text += fmt::format("key{}: {{a: 1, b: 'text', c: [1, 2, 3]}}\n", i);
  const double yaml = shortest([&] { YAML::Load(text); });
  const double config = shortest([&] { parse_config(text, "x.yaml"); });
  INFO(config << " s against " << yaml << " s");
  CHECK(config < 4 * yaml);
}

}  // namespace bv::test
