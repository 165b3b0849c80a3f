// The strict reader of configs: types, defaults, suggestions for wrong names, exact error lines.
#include <catch2/catch.hpp>

#include "lib/config/config.h"
#include "lib/config/load_config.h"
#include "test/support/error.h"

namespace bv::test {

using Strings = std::vector<std::string>;

TEST_CASE("values are read with their types") {
  const Config c = parse_config(
      "lr: 1e-06\na: 1e-3\nb: .5\nc: 1.\nd: -3\ne: 1e3\nf: true\ng: vit\nh: [1, 2, 3]\n"
      "i: [0.5, 2]\nj: [a, 'b']\nk: [['.*bias', 0], [head, 1e-1]]\nl: yes\nm: 010\nn: +4\n"
      "o: \"1\"\nq: [true, false]\n",
      "x.yaml");
  CHECK(c.get<double>("lr") == 1e-6);
  CHECK(c.get<double>("a") == 1e-3);
  CHECK(c.get<double>("b") == 0.5);
  CHECK(c.get<double>("c") == 1.0);
  CHECK(c.get<double>("d") == -3.0);
  CHECK(c.get<int64_t>("d") == -3);
  CHECK(c.get<int64_t>("e") == 1000);
  CHECK(c.get<bool>("f"));
  CHECK(c.get<std::string>("g") == "vit");
  CHECK(c.get<std::vector<int64_t>>("h") == std::vector<int64_t>{1, 2, 3});
  CHECK(c.get<std::vector<double>>("i") == std::vector<double>{0.5, 2});
  CHECK(c.get<Strings>("j") == Strings{"a", "b"});
  using Pairs = std::vector<std::pair<std::string, double>>;
  CHECK(c.get<Pairs>("k") == Pairs{{".*bias", 0}, {"head", 0.1}});
  CHECK(c.get<std::string>("l") == "yes");
  CHECK(c.get<std::string>("m") == "010");
  CHECK(c.get<int64_t>("n") == 4);
  CHECK(c.get<std::string>("o") == "1");
  CHECK(c.get<std::vector<bool>>("q") == std::vector<bool>{true, false});
  CHECK(c.get<int64_t>("absent", 7) == 7);
  CHECK(c.get("absent_text", "seven") == "seven");
  CHECK(c.get<std::vector<int64_t>>("absent_list", {}).empty());  // the form with a default
  CHECK(c.is_bool("f"));
  CHECK_FALSE(c.is_bool("l"));
  CHECK_FALSE(c.is_bool("absent_text"));
  CHECK_FALSE(c.maybe<double>("absent_too"));
  c.done();
  CHECK(problem_count(c) == 0);
}

TEST_CASE("each wrong type gives one line") {
  const auto read = [](const std::string& text, auto get) {
    const Config c = parse_config(text, "x.yaml");
    const std::string line = error_of([&] { get(c); });
    CHECK(error_of([&] { throw_problems(c); }) == line);
    return line;
  };
  const auto number = [](const Config& c) { c.get<double>("lr"); };
  const auto integer = [](const Config& c) { c.get<int64_t>("n"); };
  const auto boolean = [](const Config& c) { c.get<bool>("b"); };
  CHECK(read("\n\n   lr:  fast\n", number) ==
        "x.yaml:3:9: error: lr: expected a number, got 'fast'");
  CHECK(read("lr: '0.1'", number) ==
        "x.yaml:1:5: error: lr: expected a number, got the string '0.1' (remove the quotes)");
  CHECK(
      read("lr: 010", number) ==
      "x.yaml:1:5: error: lr: expected a number, got '010' (leading zeros are an error: write 10)");
  CHECK(read("n: -0010", integer) ==
        "x.yaml:1:4: error: n: expected an integer, got '-0010' (leading zeros are an error: write "
        "-10)");
  CHECK(read("n: 1_000", integer) ==
        "x.yaml:1:4: error: n: expected an integer, got '1_000' (write 1000)");
  CHECK(read("n: 5.0", integer) == "x.yaml:1:4: error: n: expected an integer, got '5.0'");
  CHECK(read("n: 1e-3", integer) == "x.yaml:1:4: error: n: expected an integer, got '1e-3'");
  CHECK(read("n: 0x10", integer) == "x.yaml:1:4: error: n: expected an integer, got '0x10'");
  CHECK(read("n: 9223372036854775808", integer) ==
        "x.yaml:1:4: error: n: expected an integer, got '9223372036854775808' (out of range)");
  CHECK(read("n: 1e18", integer) ==
        "x.yaml:1:4: error: n: expected an integer, got '1e18' (write all its digits, because it "
        "is beyond 2^53)");
  CHECK(read("n: 1e19", integer) ==
        "x.yaml:1:4: error: n: expected an integer, got '1e19' (out of range)");
  for (const std::string text : {".inf", "-.inf", "+.Inf", ".INF"}) {
    CHECK(read("lr: " + text, number) ==
          "x.yaml:1:5: error: lr: expected a finite number, got '" + text + "'");
  }
  for (const std::string text : {".nan", ".NaN", "inf", "nan", "Infinity"}) {
    CHECK(read("lr: " + text, number) ==
          "x.yaml:1:5: error: lr: expected a number, got '" + text + "'");
  }
  CHECK(read("n: .inf", integer) == "x.yaml:1:4: error: n: expected an integer, got '.inf'");
  CHECK(read("l: [1, .inf]", [](const Config& c) { c.get<std::vector<double>>("l"); }) ==
        "x.yaml:1:8: error: l[1]: expected a finite number, got '.inf'");
  for (const std::string& text :
       {std::string("1e39"), std::string("-3.5e38"), "1" + std::string(39, '0')}) {
    CHECK(read("lr: " + text, number) ==
          "x.yaml:1:5: error: lr: expected a number, got '" + text + "' (out of range)");
  }
  CHECK(read("lr: 1e999", number) ==
        "x.yaml:1:5: error: lr: expected a number, got '1e999' (out of range)");
  CHECK(read("lr: .nan", number) == "x.yaml:1:5: error: lr: expected a number, got '.nan'");
  CHECK(read("lr: [1]", number) == "x.yaml:1:5: error: lr: expected a number, got a list");
  CHECK(read("lr: {a: 1}", number) == "x.yaml:1:5: error: lr: expected a number, got a mapping");
  CHECK(read("b: yes", boolean) ==
        "x.yaml:1:4: error: b: expected true or false, got 'yes' (write true)");
  CHECK(read("b: Off", boolean) ==
        "x.yaml:1:4: error: b: expected true or false, got 'Off' (write false)");
  CHECK(read("b: 'true'", boolean) ==
        "x.yaml:1:4: error: b: expected true or false, got the string 'true' (remove the quotes)");
  CHECK(read("b: 1", boolean) == "x.yaml:1:4: error: b: expected true or false, got '1'");
  CHECK(read("l: 3", [](const Config& c) { c.get<std::vector<int64_t>>("l"); }) ==
        "x.yaml:1:4: error: l: expected a list, got '3'");
  CHECK(read("l: [1, x]", [](const Config& c) { c.get<std::vector<int64_t>>("l"); }) ==
        "x.yaml:1:8: error: l[1]: expected an integer, got 'x'");
  using Pairs = std::vector<std::pair<std::string, double>>;
  CHECK(read("l: [[a, 1], [b]]", [](const Config& c) { c.get<Pairs>("l"); }) ==
        "x.yaml:1:13: error: l[1]: expected [pattern, number], got a list");
  using StringPairs = std::vector<std::pair<std::string, std::string>>;
  const auto string_pairs = [](const Config& c) { c.get<StringPairs>("l"); };
  CHECK(read("l: [[a, b], [c, d, e]]", string_pairs) ==
        "x.yaml:1:13: error: l[1]: expected [string, string], got a list");
  CHECK(read("l: [[a, b], c]", string_pairs) ==
        "x.yaml:1:13: error: l[1]: expected [string, string], got 'c'");
  CHECK(read("l: [[a, [b]]]", string_pairs) ==
        "x.yaml:1:9: error: l[0]: expected a string, got a list");
  CHECK(read("l: a", string_pairs) == "x.yaml:1:4: error: l: expected a list, got 'a'");
  CHECK(read("m:\n  k: 1", [](const Config& c) { c.section("m").get<int64_t>("needed"); }) ==
        "x.yaml:2:3: error: m.needed: missing: an integer is required");
  CHECK(read("m: 1", [](const Config& c) { c.get<std::string>("needed"); }) ==
        "x.yaml: error: needed: missing: a string is required");
  CHECK(read("ä: 'ö' # y\nb: ünf", boolean) ==
        "x.yaml:2:4: error: b: expected true or false, got 'ünf'");
  CHECK(read("{ä: ö, b: ü}", boolean) ==
        "x.yaml:1:11: error: b: expected true or false, got 'ü'");  // columns count characters
}

TEST_CASE("a wrong value with a default is collected and replaced by the default") {
  const Config c = parse_config("a: x\nb: 1.5\nc: [1]\nd: bach\n", "x.yaml");
  CHECK(c.get("b", int64_t{3}) == 3);
  CHECK(c.get("a", 2.0) == 2.0);
  CHECK_FALSE(c.maybe<double>("c"));
  CHECK(c.word("d", "group", {"batch", "group"}) == "group");
  CHECK(error_of([&] { throw_problems(c); }) ==
        "x.yaml:1:4: error: a: expected a number, got 'x'\n"
        "x.yaml:2:4: error: b: expected an integer, got '1.5'\n"
        "x.yaml:3:4: error: c: expected a number, got a list\n"
        "x.yaml:4:4: error: d: expected one of batch, group, got 'bach' (did you mean 'batch'?)");
}

TEST_CASE("keys that are never read are errors with a suggestion") {
  const Config c = parse_config(
      "optmizer: adam\nseed: 1\ninput:\n  data: {nme: idx}\n  zzz: 2\nleft: null\n", "vit.yaml");
  c.get("optimizer", "sgd");
  c.get("seed", int64_t{0});
  const Config input = c.section("input");
  input.get("batch_size", int64_t{1});
  CHECK_FALSE(c.has("left"));
  CHECK(error_of([&] { input.section("data").get<std::string>("name"); }) ==
        "vit.yaml:4:10: error: unknown key 'input.data.nme' (did you mean 'name'?)");
  c.done();  // this checks the sections too
  c.done();
  CHECK(error_of([&] { throw_problems(c); }) ==
        "vit.yaml:1:1: error: unknown key 'optmizer' (did you mean 'optimizer'?)\n"
        "vit.yaml:4:10: error: unknown key 'input.data.nme' (did you mean 'name'?)\n"
        "vit.yaml:5:3: error: unknown key 'input.zzz'; known here: batch_size, data");
}

TEST_CASE("the example of an error line in the docs") {
  std::string text(11, '\n');
  const Config c = parse_config(text + "      optmizer: x\n", "vit.yaml");
  c.get("optimizer", "");
  c.done();
  CHECK(error_of([&] { throw_problems(c); }) ==
        "vit.yaml:12:7: error: unknown key 'optmizer' (did you mean 'optimizer'?)");
}

TEST_CASE("an unread null is an error unless the key is known") {
  const Config c = parse_config("mixup: null\nmixpu: null\n", "x.yaml");
  if (c.has("mixup")) c.section("mixup");
  c.done();
  CHECK(error_of([&] { throw_problems(c); }) ==
        "x.yaml:2:1: error: unknown key 'mixpu' (did you mean 'mixup'?)");
}

TEST_CASE("sections, items and lists of mappings") {
  const Config c = parse_config(
      "evals:\n  val: {type: a}\n  off: null\n  minival: {type: b}\n  bad: 3\n"
      "schedules: [{k: 1}, 2, {k: 3}]\nnot_map: 1\n",
      "x.yaml");
  Strings names;
  for (const auto& [name, section] : c.section("evals").items()) {
    names.push_back(name + "=" + section.get<std::string>("type") + "@" + section.path());
  }
  CHECK(names == Strings{"val=a@evals.val", "minival=b@evals.minival"});
  CHECK(c.section("evals").keys() == Strings{"val", "off", "minival", "bad"});
  int64_t sum = 0;
  for (const Config& s : c.sections("schedules")) sum += s.get<int64_t>("k");
  CHECK(sum == 4);
  CHECK(c.is_list("schedules"));
  CHECK(c.is_map("evals"));
  CHECK_FALSE(c.is_map("absent"));
  CHECK(c.section("absent").keys().empty());
  CHECK(c.section("not_map").keys().empty());
  c.done();
  CHECK(error_of([&] { throw_problems(c); }) ==
        "x.yaml:5:8: error: evals.bad: expected a mapping, got '3'\n"
        "x.yaml:6:21: error: schedules[1]: expected a mapping, got '2'\n"
        "x.yaml:7:10: error: not_map: expected a mapping, got '1'");
}

TEST_CASE("a section that is no mapping, or is empty, gives one problem at its place") {
  const auto missing = [](const std::string& text) {
    const Config c = parse_config(text, "x.yaml");
    attempt(c, [&] { c.section("own").get<double>("rate"); });
    c.done(/*although_incomplete=*/true);
    return error_of([&] { throw_problems(c); });
  };
  CHECK(missing("own: 0.99\n") == "x.yaml:1:6: error: own: expected a mapping, got '0.99'");
  CHECK(missing("\nown:\n") == "x.yaml:2:1: error: own.rate: missing: a number is required");
  CHECK(missing("own: [{a: 1}, {b: 2}]\n") ==
        "x.yaml:1:6: error: own: expected a mapping, got a list (remove the '- ' before its keys)");
  // That would give the key `a` twice.
  CHECK(missing("own: [{a: 1}, {a: 2}]\n") ==
        "x.yaml:1:6: error: own: expected a mapping, got a list");
}

TEST_CASE("sections chosen by patterns") {
  const std::string text = "schedule: [['head.*', null], ['.*', {decya: linear, base: 1}]]\n";
  const Config c = parse_config(text, "x.yaml");
  const auto all = c.pattern_sections("schedule");
  REQUIRE(all.size() == 2);
  CHECK(all[0].first == "head.*");
  CHECK_FALSE(all[0].second);
  all[1].second->get("decay", "cosine");
  all[1].second->get("base", 1.0);
  c.done();
  CHECK(error_of([&] { throw_problems(c); }) ==
        "x.yaml:1:38: error: unknown key 'schedule[1].decya' (did you mean 'decay'?)");
  const std::string resolved = resolved_yaml(c);
  CHECK(resolved.find("decay: cosine  # default\n") != std::string::npos);
  CHECK(parse_config(resolved, "y.yaml").pattern_sections("schedule").size() == 2);
  for (const char* bad : {"s: 3\n", "s: [a]\n", "s: [[a, 3]]\n", "s: [[a]]\n"}) {
    const Config b = parse_config(bad, "x.yaml");
    CHECK(error_of([&] { b.pattern_sections("s"); }).find("x.yaml:1:") == 0);
  }
}

TEST_CASE("problems of callers, warnings and superseded keys") {
  const Config c =
      parse_config("input:\n  batch_size: -1\n  cache_raw: true\n  none: null\n", "x.yaml");
  const Config input = c.section("input");
  CHECK(error_of([&] { input.fail("batch_size", "must be positive, got -1"); }) ==
        "x.yaml:2:15: error: input.batch_size: must be positive, got -1");
  CHECK(error_of([&] { c.fail("", "nothing to train"); }) == "x.yaml: error: nothing to train");
  input.warn("batch_size", "is small");
  input.superseded("cache_raw", "the page cache does it");
  input.superseded("none", "x");
  input.superseded("prefetch_to_device", "input.prefetch");
  CHECK(warnings(c) ==
        Strings{"x.yaml:2:15: warning: input.batch_size: is small",
                "x.yaml:3:3: warning: 'input.cache_raw' is not used: the page cache does it"});
}

TEST_CASE("attempt collects usage errors once and passes others on") {
  const Config c = parse_config("a: {lr: x}\nb: {k: 1}\nc: {k: 1}\n", "x.yaml");
  const Config a = c.section("a");
  CHECK_FALSE(attempt(a, [&] { a.get<double>("lr"); }));
  CHECK_FALSE(attempt(a, [&] { a.get<double>("lr"); }));
  const Config b = c.section("b");
  CHECK_FALSE(attempt(b, [&] { throw Error(Exit::usage, "data/x.idx", "truncated"); }));
  CHECK(attempt(c, [&] { c.section("c").get<int64_t>("k"); }));
  CHECK_THROWS_AS(attempt(c, [&] { throw Error(Exit::storage, "f", "full"); }), Error);
  c.done();  // the unread b.k is not reported, because its reader gave up
  CHECK(problem_count(c) == 2);
  CHECK(error_of([&] { throw_problems(c); }) ==
        "data/x.idx: error: truncated\nx.yaml:1:9: error: a.lr: expected a number, got 'x'");
}

TEST_CASE("at most twenty problems, in the order of the file") {
  std::string text;
  for (int i = 0; i < 25; ++i) text += "k" + std::to_string(i) + ": x\n";
  const Config c = parse_config(text, "x.yaml");
  for (int i = 24; i >= 0; --i) c.maybe<double>("k" + std::to_string(i));
  const std::string lines = error_of([&] { throw_problems(c); });
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 20);
  CHECK(lines.find("x.yaml:1:5: error: k0: expected") == 0);
  CHECK(lines.find("\nx.yaml:10:5: error: k9") != std::string::npos);
  CHECK(lines.substr(lines.rfind('\n')) == "\n... and 5 more");
}

TEST_CASE("mark_read silences a subtree") {
  const Config c = parse_config("a: {x: 1}\nb: {y: 2}\n", "x.yaml");
  c.section("a").mark_read();
  c.mark_read("b");
  c.done();
  CHECK(problem_count(c) == 0);
}

TEST_CASE("a config without a document is empty") {
  const Config c;
  CHECK(c.get("k", int64_t{5}) == 5);
  CHECK(error_of([&] { c.get<int64_t>("n"); }) == "error: n: missing: an integer is required");
}

TEST_CASE("names that are not registered") {
  CHECK(unknown_name_message("model", "vot", {"bit", "cnn", "vit"}) ==
        "unknown model 'vot' (did you mean 'vit'?); known: bit, cnn, vit");
  CHECK(unknown_name_message("model", "zzzz", {"bit", "cnn"}) ==
        "unknown model 'zzzz'; known: bit, cnn");
}

}  // namespace bv::test
