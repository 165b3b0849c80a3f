#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include "lib/input/detect_data.h"
#include "test/input/manifest_support.h"
#include "test/support/compare.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

using std::string_literals::operator""s;

struct JsonlFolder : ManifestFolder {
  std::shared_ptr<const Dataset> data(const std::string& content, const std::string& rest = "",
                                      const DataEnv& env = {}) const {
    return open_file(write("t.jsonl", content), rest, env);
  }
  std::string problem(const std::string& content, const std::string& rest = "") const {
    return problem_of("t.jsonl", content, rest);
  }
};

}  // namespace

TEST_CASE("jsonl: values and their types", "[jsonl]") {
  const JsonlFolder folder;
  const auto data = folder.data(
      R"({"n": -3, "x": 1, "ok": true, "t": "a\u00fc\ud83d\ude00\n\/", "o": {"p": {"q": 7}}, )"
      R"("v": [1, 2], "f": [1, 2.5], "w": ["ab", "c"], "e": [], "flags": [true, false]})"
      "\r\n"
      R"({"x": 2.5, "n": 9007199254740993, "ok": false, "t": "", "o": {"p": {"q": 8}}, )"
      R"("v": [], "f": [3], "w": [], "e": [], "flags": [true]})");
  REQUIRE(data->size() == 2);
  const Example first = data->read(0), second = data->read(1);
  CHECK(first.at("n").item<int64_t>() == -3);
  CHECK(first.at("n").dim() == 0);
  CHECK(second.at("n").item<int64_t>() == 9007199254740993);
  CHECK(first.at("x").scalar_type() == at::kFloat);  // because line 2 has 2.5
  CHECK(first.at("x").item<float>() == 1);
  CHECK(first.at("ok").scalar_type() == at::kBool);
  CHECK(first.at("ok").item<bool>());
  CHECK_FALSE(second.at("ok").item<bool>());
  CHECK(text_at(first, "t") == "aü😀\n/");
  CHECK(second.at("t").sizes() == at::IntArrayRef({0}));
  CHECK(first.at("o/p/q").item<int64_t>() == 7);
  CHECK(first.at("v").equal(at::tensor({1, 2}, at::kLong)));
  CHECK(second.at("v").sizes() == at::IntArrayRef({0}));
  CHECK(second.at("v").scalar_type() == at::kLong);
  CHECK(first.at("f").equal(at::tensor({1.F, 2.5F})));
  CHECK(second.at("f").equal(at::tensor({3.F})));
  CHECK(bv::read_texts(first.at("w")) == Names{"ab", "c"});
  CHECK(second.at("w").sizes() == at::IntArrayRef({0, 0}));
  CHECK(first.at("e").scalar_type() == at::kFloat);
  CHECK(first.at("flags").equal(at::tensor({1, 0}).to(at::kBool)));
  CHECK(text_at(second, "id") == "1");
  CHECK(first.size() == 11);
  CHECK(folder.local(data->describe(1)) == "t.jsonl:2");
  CHECK_FALSE(data->source().labels(0).defined());
}

TEST_CASE("jsonl: files, labels and rows", "[jsonl]") {
  const JsonlFolder folder;
  const std::string text = R"({"image": "images/a.jpg", "label": 4, "id": "x"})"
                           "\n"
                           R"({"image": "images/b.jpg", "label": 2, "id": "y"})"
                           "\n"
                           R"({"image": "images/c.jpg", "label": 7, "id": "z"})"
                           "\n\n";
  for (const char* keys : {"image", "[image]"}) {
    const auto data = folder.data(text, std::string("fopen_keys: ") + keys + "\n");
    CHECK(text_of(data->read(1).at("image")) == flat_jpeg(100));
    CHECK(data->source().labels(0).equal(at::tensor({4, 2, 7}, at::kLong)));
    CHECK(text_at(data->read(1), "id") == "y");
    CHECK_FALSE(data->read_values(1).contains("image"));
    CHECK(text_at(data->read_values(1), "id") == "y");
  }
  CHECK(text_at(folder.data(text)->read(0), "image") == "images/a.jpg");
  const auto part = folder.data(text, "start: 1\nstop: 2\n");
  REQUIRE(part->size() == 1);
  CHECK(part->read(0).at("label").item<int64_t>() == 2);
  CHECK(folder.local(part->describe(0)) == "t.jsonl:2");
  CHECK(folder.problem(text, "start: 3\n") == "t.jsonl: error: has 3 rows, but start is 3");
  CHECK(folder.remarks_of(folder / "t.jsonl", "stop: 5\n") ==
        Names{"t.jsonl: stop is 5, but there are only 3 rows"});
  CHECK(folder.problem(text, "start: 2\nstop: 1\n") ==
        "t.yaml:4:7: error: stop: is 1, but start is 2: no rows are left");
  CHECK(folder.problem(text, "start: -1\n") ==
        "t.yaml:3:8: error: start: must be at least 0, got -1");
  CHECK(folder.problem(text, "download_keys: [image]\n") ==
        "t.yaml:3:16: error: download_keys: is not supported: download the files first, and give "
        "the key of their names in fopen_keys");
  const std::string bare = "{\"image\": \"a.jpg\"}\n";
  const auto folders = folder.data(bare, "fopen_keys: {image: " + (folder / "images") + "}\n");
  CHECK(text_of(folders->read(0).at("image")) == flat_jpeg(50));
  CHECK(text_at(folders->read(0), "id") == "0");
  CHECK(folder.problem(bare, "fopen_keys: [image]\n") ==
        "t.jsonl:1:11: error: no file 'a.jpg'; a mapping in `fopen_keys` sets the folder of a key");
  CHECK(folder.problem(bare, "fopen_keys: [imgae]\n") ==
        "t.yaml:3:13: error: the rows of 't.jsonl': unknown key 'imgae' (did you mean 'image'?); "
        "known: image");
  CHECK(folder.problem("{\"image\": 3}\n", "fopen_keys: [image]\n") ==
        "t.jsonl:1:11: error: 'image' is an integer, but fopen_keys names it: it must be the name "
        "of a file");
  CHECK(folder.problem("{\"image\": \"../a.jpg\"}\n", "fopen_keys: {image: data}\n") ==
        "t.jsonl:1:11: error: '../a.jpg' points outside the folder 'data': only an absolute path, "
        "which begins with /, may do that");
}

TEST_CASE("jsonl: big_vision's name", "[jsonl]") {
  const JsonlFolder folder;
  const std::string file = folder.write("t.jsonl", "{\"label\": 1}\n");
  const auto data = from_yaml("{name: 'bv:jsonl', fname: " + file + "}", [](const Config& config) {
    return prepare_data(config, {});
  })(std::nullopt);
  CHECK(data->read(0).at("label").item<int64_t>() == 1);
}

TEST_CASE("jsonl: splits", "[jsonl]") {
  const JsonlFolder folder;
  const std::string text =
      "{\"s\": \"b\", \"n\": 0}\n{\"s\": \"a\", \"n\": 1}\n{\"s\": \"b\", \"n\": 2}\n";
  const auto data = folder.data(text, "split_column: s\nsplit: b\n");
  CHECK(data->source().splits() == Names{"a", "b"});
  REQUIRE(data->size() == 2);
  CHECK(data->read(1).at("n").item<int64_t>() == 2);
  CHECK_FALSE(data->read(1).contains("s"));
  CHECK(folder.problem(text, "split_column: t\n") ==
        "t.yaml:3:15: error: the rows of 't.jsonl': unknown key 't'; known: n, s");
  CHECK(folder.problem(text, "split_column: n\n") ==
        "t.jsonl:1:17: error: 'n' must be the name of a split\n"
        "t.jsonl:2:17: error: 'n' must be the name of a split\n"
        "t.jsonl:3:17: error: 'n' must be the name of a split");
}

TEST_CASE("jsonl: a warning says that the rows of all splits are used", "[jsonl]") {
  const JsonlFolder folder;
  const auto remarks = [&](const std::string& text, const std::string& rest = "") {
    Names lines = folder.data(text, rest)->source().file_notes(rest.empty() ? 1 : 0).remarks;
    for (std::string& line : lines) line = folder.local(line);
    return lines;
  };
  const std::string text = "{\"split\": \"train\"}\n{\"split\": \"test\"}\n";
  CHECK(
      remarks(text) ==
      Names{"t.jsonl: 'split' names the split of each row, but all rows are used; add "
            "`split_column: split` to use the rows of one split, or write `split: all` to use all "
            "rows"});
  CHECK(remarks(text, "split: all\n").empty());
  CHECK(remarks(text, "split_column: split\n").empty());
  CHECK(contains(remarks("{\"set\": \"train\"}\n{\"set\": \"test\"}\n").at(0),
                 "'set' names the split of each row"));
  CHECK(remarks("{\"split\": 1}\n{\"split\": 2}\n").empty());
  CHECK(remarks("{\"split\": [\"train\"]}\n{\"split\": [\"test\"]}\n").empty());
}

TEST_CASE("jsonl: rows that differ", "[jsonl]") {
  const JsonlFolder folder;
  const auto of = [&](const std::string& first, const std::string& second) {
    return folder.problem(first + "\n" + second + "\n");
  };
  CHECK(of(R"({"a": 1})", R"({"a": "x"})") ==
        "t.jsonl:2:7: error: 'a' is a string, but an integer in line 1");
  CHECK(of(R"({"a": 1})", R"({"a": true})") ==
        "t.jsonl:2:7: error: 'a' is true or false, but an integer in line 1");
  CHECK(of(R"({"a": [1]})", R"({"a": 1})") ==
        "t.jsonl:2:7: error: 'a' is an integer, but a list of integers in line 1");
  CHECK(of(R"({"a": ["x"]})", R"({"a": [1]})") ==
        "t.jsonl:2:7: error: 'a' is a list of integers, but a list of strings in line 1");
  CHECK(of(R"({"a": []})", R"({"a": [1]})").empty());
  CHECK(of(R"({"a": 1, "b": 2})", R"({"a": 1})") ==
        "t.jsonl:2:1: error: no key 'b', which line 1 has");
  CHECK(of(R"({"a": 1})", R"({"b": 2, "a": 1})") ==
        "t.jsonl:2:7: error: the key 'b' is not in line 1");
}

TEST_CASE("jsonl: broken files", "[jsonl]") {
  const JsonlFolder folder;
  const auto of = [&](const std::string& row) { return folder.problem(row + "\n"); };
  CHECK(folder.problem("") == "t.jsonl: error: the file is empty");
  CHECK(folder.problem("\n") == "t.jsonl: error: has no rows");
  CHECK(folder.problem("\n{\"a\": 1}\n") == "t.jsonl:1: error: an empty line");
  CHECK(folder.problem("<html>") ==
        "t.jsonl: error: this is an HTML page, probably an error message of a web server: download "
        "it again");
  CHECK(of("[1, 2]") == "t.jsonl:1:1: error: expected an object: {\"key\": value, ...}");
  CHECK(of("{}") == "t.jsonl:1:1: error: an object without values");
  CHECK(of("{\"a\": 1,}") == "t.jsonl:1:9: error: bad JSON: a comma before '}'");
  CHECK(of("{\"a\": [1,]}") == "t.jsonl:1:10: error: bad JSON: a comma before ']'");
  CHECK(of("{'a': 1}") == "t.jsonl:1:2: error: bad JSON: expected a key in double quotes");
  CHECK(of("{\"a\" 1}") == "t.jsonl:1:6: error: bad JSON: expected ':'");
  CHECK(of("{\"a\": 1 2}") == "t.jsonl:1:9: error: bad JSON: expected ',' or '}'");
  CHECK(of("{\"a\": 1} x") == "t.jsonl:1:10: error: expected the end of the line after the object");
  CHECK(of("{\"ü\": \"x") ==
        "t.jsonl:1:7: error: bad JSON: the quote that opens here is never closed");
  CHECK(of("{\"a\": NaN}") == "t.jsonl:1:7: error: NaN is not a finite number");
  CHECK(of("{\"a\": -Infinity}") == "t.jsonl:1:7: error: -Infinity is not a finite number");
  CHECK(of("{\"a\": 1e39}") == "t.jsonl:1:7: error: the number 1e39 is too large for float32");
  CHECK(of("{\"a\": 9223372036854775808}") ==
        "t.jsonl:1:7: error: the number 9223372036854775808 is too large for 64 bits");
  for (const char* number : {"01", "1.", "-", "1e", "-.5", "1.e5", "0x1F"}) {
    INFO(number);
    CHECK_THAT(of(fmt::format("{{\"a\": {}}}", number)), Catch::StartsWith("t.jsonl:1:"));
  }
  CHECK(of("{\"a\": null}") ==
        "t.jsonl:1:7: error: null has no type: every row needs a value here");
  CHECK(of("{\"a\": True}") == "t.jsonl:1:7: error: bad JSON: expected a value, got 'True'");
  CHECK(of("{\"a\": [[1]]}") == "t.jsonl:1:8: error: a list in a list is not supported");
  CHECK(of("{\"a\": [1, \"x\"]}") == "t.jsonl:1:11: error: a string in a list of integers");
  CHECK(of("{\"a\": 1, \"a\": 2}") == "t.jsonl:1:15: error: the key 'a' appears twice");
  CHECK(of("{\"a/b\": 1, \"a\": {\"b\": 2}}") ==
        "t.jsonl:1:23: error: the key 'a/b' appears twice");
  CHECK(of("{\"a\": \"\\x\"}") == "t.jsonl:1:8: error: bad JSON: an unknown escape in a string");
  CHECK(of("{\"a\": \"\\ud800x\"}") == "t.jsonl:1:8: error: bad JSON: half of a surrogate pair");
  CHECK(of("{\"a\": \"\\u00g0\"}") ==
        "t.jsonl:1:8: error: bad JSON: \\u needs four hexadecimal digits");
  CHECK(of("{\"a\": \"\\u0000\"}") ==
        "t.jsonl:1:8: error: a string must not contain U+0000: zeros mark its end");
  CHECK(
      of("{\"a\": \"x\ty\"}") ==
      "t.jsonl:1:9: error: bad JSON: a control character (0x09) in a string: write it as \\u0009");
  CHECK(of("{\"a\": \"\xE9\"}") ==
        "t.jsonl:1:8: error: is not UTF-8 text (byte 0xE9): save the file as UTF-8");
  CHECK(of("{\"a\": \"\0\"}"s) == "t.jsonl:1:8: error: a NUL byte: the file must be UTF-8 text");
  CHECK(folder.problem("{\"a\": 1}\n{\"a\": ") ==
        "t.jsonl:2:7: error: bad JSON: expected a value, but the line ends here (the file ends "
        "without a newline here: was it cut off?)");
  CHECK(folder.problem("{\"a\": 1}\n{\"a\": \n{\"a\": 2}\n") ==
        "t.jsonl:2:7: error: bad JSON: expected a value, but the line ends here");
  std::string deep;
  for (int i = 0; i < 65; ++i) deep += "{\"a\":";
  CHECK(of(deep) == "t.jsonl:1:321: error: objects nested more than 64 deep");
  CHECK(of("{\"" + std::string(1001, 'k') + "\": 1}") ==
        "t.jsonl:1:2: error: a key of more than 1000 bytes");
  std::string padded = "{\"a\": [\"" + std::string(100'000, 'x') + "\"";
  for (int i = 0; i < 1000; ++i) padded += ",\"\"";
  CHECK(of(padded + "]}") ==
        "t.jsonl:1:7: error: the strings of this list need more than 64 MiB when padded to equal "
        "lengths");
}

TEST_CASE("jsonl: skip_errors keeps broken rows as examples that fail", "[jsonl]") {
  const JsonlFolder folder;
  DataEnv env;
  env.source.keep_broken = true;
  const auto data = folder.data("{\"label\": 3}\nx\n{\"label\": \"x\"}\n{\"label\": 5}\n", "", env);
  REQUIRE(data->size() == 4);
  constexpr int64_t kNo = Source::kNoLabel;
  CHECK(data->source().labels(0).equal(at::tensor({int64_t{3}, kNo, kNo, int64_t{5}}, at::kLong)));
  CHECK(data->label_counts() == std::map<int64_t, int64_t>{{3, 1}, {5, 1}});
  CHECK(data->read(3).at("label").item<int64_t>() == 5);
  CHECK_FALSE(data->files_of(0).has_value());
  CHECK(folder.local(error_of([&] { data->read(1); }, Exit::data)) ==
        "t.jsonl:2: error: expected an object: {\"key\": value, ...} (column 1)");
  CHECK(folder.local(error_of([&] { data->read(2); }, Exit::data)) ==
        "t.jsonl:3: error: 'label' is a string, but an integer in line 1 (column 11)");
}

TEST_CASE("jsonl: the stored index gives the same data set", "[jsonl]") {
  const JsonlFolder folder;
  const std::string file = folder.write(
      "t.jsonl",
      "{\"label\": 1, \"x\": 1}\n{\"label\": 0, \"x\": 2.5}\n{\"label\": 1, \"x\": 3}\n");
  const auto first = folder.open_file(file, "");
  folder.age_file(file);
  folder.open_file(file, "");
  REQUIRE_FALSE(std::filesystem::is_empty(folder.cache.path()));
  const auto again = folder.open_file(file, "");
  CHECK(again->fingerprint() == first->fingerprint());
  for (int64_t i = 0; i < 3; ++i) CHECK(same_bits(again->read(i), first->read(i)));
  CHECK(folder.open_file(file, "start: 1\n")->size() == 2);
}

TEST_CASE("jsonl: bvtrain init finds files that name images", "[jsonl]") {
  const JsonlFolder folder;
  const auto found = [&]() -> std::optional<DetectedData> {
    for (DetectedData& data : detect_data(folder.path())) {
      if (data.source == "jsonl") return data;
    }
    return std::nullopt;
  };
  folder.write("x.jsonl", "{\"a\": \"b\"}\n");
  CHECK_FALSE(found());
  folder.write("train.jsonl", "{\"image\": \"images/a.jpg\", \"label\": 1}\n");
  REQUIRE(found());
  CHECK(found()->train == DataKeys{{"fname", folder / "train.jsonl"}, {"fopen_keys", "image"}});
  folder.write("train.jsonl", "{\"image\": \"images/a.jpg\", \"label\": \"cat\"}\n");
  CHECK(error_of(found) ==
        (folder / "train.jsonl") +
            ": error: names images, but has no `label` that is the number of a class");
  folder.write("train.jsonl",
               "{\"image\": \"images/a.jpg\", \"label\": 1, \"split\": \"train\"}\n");
  CHECK(error_of(found) == (folder / "train.jsonl") +
                               ": error: has a key `split`, so some rows may not be for training: "
                               "write the config yourself, with `name: jsonl` and `split_column: "
                               "split`");
  folder.write("train.jsonl", "{\"image\": \"images/a.jpg\", \"label\": 1, \"set\": \"test\"}\n");
  CHECK(contains(error_of(found), "has a key `set`, so some rows may not be for training"));
  folder.write("train.jsonl",
               "{\"image\": \"images/a.jpg\", \"label\": 1, \"name\": \"train\"}\n"
               "{\"image\": \"images/a.jpg\", \"label\": 0, \"name\": \"bus\"}\n");
  CHECK(found());  // the name of a class
  folder.write("train.jsonl", "{\"image\": \"images/a.jpg\", \"label\": 1, \"split\": 2}\n");
  CHECK(found());  // a number is no name of a split
}

}  // namespace bv::test
