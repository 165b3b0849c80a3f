// The ops on strings: the cases of the reference's own tests, and more.
#include "lib/input/ops/common/text_tensor.h"
#include "test/input/op_support.h"

namespace bv::test {
namespace {

std::string formatted(const std::string& format, const Example& example) {
  return bv::read_text(run_pp("strfmt('" + format + "')", example).at("text"));
}

std::string name_of(const std::string& op, int64_t label) {
  return bv::read_text(run_pp(op, {{"label", at::full({}, label, at::kLong)}}).at("labels"));
}

}  // namespace

TEST_CASE("strfmt inserts texts and numbers") {
  const Example data = {{"int", at::full({}, 42, at::kByte)},
                        {"float", at::full({}, 3.14f)},
                        {"vec", at::arange(3)},
                        {"empty", text_tensor("")},
                        {"odd", text_tensor("yes \\1 {pattern}")},
                        {"a/b", text_tensor("K\xC3\xA4se")},
                        {"matrix", at::arange(4).view({2, 2})},
                        {"none", at::zeros({0})},
                        {"flag", at::full({}, true, at::kBool)}};
  const std::pair<std::string, std::string> all[] = {{"Nothing", "Nothing"},
                                                     {"", ""},
                                                     {"{int}", "42"},
                                                     {"A{int}", "A42"},
                                                     {"{int}{int}", "4242"},
                                                     {"A{int}A{int}A", "A42A42A"},
                                                     {"A{float}A{int}", "A3.14A42"},
                                                     {"A{vec}A", "A[0 1 2]A"},
                                                     {"A{empty}A", "AA"},
                                                     {"A{odd}A", "Ayes \\1 {pattern}A"},
                                                     {"{{int}} {{{int}}}", "{int} {42}"},
                                                     {"{a/b}!", "K\xC3\xA4se!"},
                                                     {"{matrix}", "[[0 1]\n [2 3]]"},
                                                     {"{none}", "[]"},
                                                     {"{flag}", "1"}};
  for (const auto& [format, expected] : all) CHECK(formatted(format, data) == expected);
  const Example out = run_pp("strfmt('{int}', outkey='label')", data);
  CHECK(bv::read_text(out.at("label")) == "42");
  CHECK_FALSE(out.contains("text"));
}

TEST_CASE("numbers that strfmt writes read back exactly") {
  Rng rng(1, Purpose::synthetic, 0);
  for (int i = 0; i < 1000; ++i) {
    const auto value = static_cast<float>(rng.normal() * std::exp(15 * rng.normal()));
    CHECK(std::strtof(formatted("{x}", {{"x", at::full({}, value)}}).c_str(), nullptr) == value);
    const double wide = rng.normal();
    CHECK(std::strtod(formatted("{x}", {{"x", at::full({}, wide, at::kDouble)}}).c_str(),
                      nullptr) == wide);
  }
  CHECK(formatted("{x}", {{"x", at::full({}, 1e10f)}}) == "1e+10");
  CHECK(formatted("{x}", {{"x", at::full({}, -5, at::kLong)}}) == "-5");
}

TEST_CASE("strfmt of a list of texts gives a list") {
  const at::Tensor names = text_tensor(std::vector<std::string>{"cat", "tiger cat"});
  const at::Tensor out =
      run_pp("strfmt('a {labels} ({n})')", {{"labels", names}, {"n", at::full({}, 3, at::kLong)}})
          .at("text");
  CHECK(read_texts(out) == std::vector<std::string>{"a cat (3)", "a tiger cat (3)"});
  CHECK(run_error(Exit::usage, "strfmt('{a}{b}')", {{"a", names}, {"b", names.narrow(0, 0, 1)}}) ==
        "t.yaml:3:9: error: strfmt: 'b' is a list of 1 strings, but another key has 2");
}

TEST_CASE("lower changes ASCII letters only") {
  const auto low = [](const std::string& content) {
    return bv::read_text(run_pp("lower", {{"text", text_tensor(content)}}).at("text"));
  };
  CHECK(low("TeSt @[`{ 9") == "test @[`{ 9");
  CHECK(low("\xC3\x84Z") == "\xC3\x84z");
  CHECK(low("") == "");
  const Example out = run_pp("lower(inkey='a', outkey='b')",
                             {{"a", text_tensor(std::vector<std::string>{"A", "Bc"})}});
  CHECK(read_texts(out.at("b")) == std::vector<std::string>{"a", "bc"});
  CHECK(read_texts(out.at("a")) == std::vector<std::string>{"A", "Bc"});
}

TEST_CASE("names of ImageNet's classes") {
  CHECK(name_of("clip_i1k_label_names", 0) == "tench");
  CHECK(name_of("clip_i1k_label_names", 21) == "kite (bird of prey)");
  CHECK(name_of("clip_i1k_label_names", 999) == "toilet paper");
  CHECK(name_of("i21k_label_names", 0) == "organism");
  CHECK(name_of("i21k_label_names", 6) == "plant");
  CHECK(name_of("i21k_label_names", 18781) == "st");
  CHECK_FALSE(name_of("i21k_label_names", 21842).empty());
  for (int64_t label = 0; label < 1000; ++label) {
    CHECK_FALSE(name_of("clip_i1k_label_names", label).empty());
  }
  const Example out = run_pp("clip_i1k_label_names(inkey='y', outkey='names')|strfmt('a {names}')",
                             {{"y", at::tensor({1, 0}, at::kInt)}});
  CHECK(read_texts(out.at("names")) == std::vector<std::string>{"goldfish", "tench"});
  CHECK(read_texts(out.at("text")) == std::vector<std::string>{"a goldfish", "a tench"});
  CHECK(bv::read_text(
            run_pp("clip_i1k_label_names(key='y')", {{"y", at::full({}, 2, at::kLong)}}).at("y")) ==
        "great white shark");
}

}  // namespace bv::test
