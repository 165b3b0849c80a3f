// Deterministic mutations of good inputs. Any bytes give a config or a usage error.
#include <catch2/catch.hpp>

#include "lib/config/call.h"
#include "lib/config/config.h"
#include "lib/config/load_config.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

const char* const kConfigs[] = {
    "seed: 1\nmodel:\n  name: vit\n  width: 768 # x\nlr_mults: [[head, 2], ['.*', 1e-3]]\n"
    "evals:\n  val: &v {type: c, log_steps: 5}\n  mini: {<<: *v, n: ~}\npp: >\n  decode|\n  "
    "resize(224)\n",
    "---\na: \"\\x41\\u00e4\"\nb: ${HOME:-x}\n? c\n: [1, {d: e}, [f]]\n!!str g: &h |\n  x\n...\n",
};
const char* const kCalls[] = {
    "decode|resize(224, method='area')|a.b(x=[1, -2.5e-3, (3,)], y={'k': None})|keep(\"image\", "
    "'labels')",
    "op((((1))), [], (), {}, 'a\\'b\\\\', True)|  flip_lr |value_range(-1, 1)",
};
const char kBytes[] = "\0\t\n\r !\"#$%&'()*+,-./0189:;<=>?@AZ[\\]^_`ab{|}~\x7f\x80\xc3\xa4\xed\xff";

std::string mutate(std::string text, Rng& rng) {
  for (int64_t edits = 1 + rng.below(6); edits > 0; --edits) {
    const size_t at = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size()) + 1));
    const char byte = kBytes[rng.below(sizeof(kBytes) - 1)];
    const size_t length = static_cast<size_t>(rng.below(12));
    switch (rng.below(6)) {
      case 0:
        text.insert(at, 1, byte);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        if (at < text.size()) text[at] = byte;
        break;
      case 3:
        text.insert(static_cast<size_t>(rng.below(static_cast<int64_t>(text.size()) + 1)),
                    text.substr(at, length));
        break;
      case 4:
        text.insert(at, std::string(static_cast<size_t>(rng.below(90)), byte));
        break;
      default:
        text.resize(at);
    }
    if (text.empty()) text = "a";
  }
  return text;
}

// Returns whether every line is printable and none is empty.
bool fit_for_a_terminal(const std::string& lines) {
  for (const char c : lines) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n') || byte == 0x7f) return false;
  }
  return lines.find("\n\n") == std::string::npos;
}

}  // namespace

TEST_CASE("mutated configs load or are refused") {
  Rng rng(1, Purpose::synthetic, 0);
  int loaded = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string text = mutate(kConfigs[i % 2], rng);
    INFO(json_string(text));
    const std::string line = error_of([&] {
      const Config c = parse_config(text, "x.yaml");
      ++loaded;
      const std::string yaml = c.yaml();
      REQUIRE(parse_config(yaml, "y.yaml").json() == c.json());
      if (c.has("pp") && !c.is_map("pp") && !c.is_list("pp"))
        parse_calls(c.get<std::string>("pp"), c, "pp");
      c.done();
      throw_problems(c);
    });
    REQUIRE(fit_for_a_terminal(line));
  }
  CHECK(loaded > 500);
  CHECK(loaded < 5000);
}

TEST_CASE("mutated calls parse or are refused") {
  Rng rng(2, Purpose::synthetic, 0);
  int parsed = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string text = mutate(kCalls[i % 2], rng);
    INFO(json_string(text));
    const std::string line = error_of([&] {
      for (const Call& call : parse_calls(text, Place{"x.yaml", 3, 5})) {
        call.args.maybe<double>("a");
        call.args.get("b", "x");
        call.args.section("y").done();
        call.args.positional_strings();
        call.args.done();
      }
      ++parsed;
    });
    REQUIRE(fit_for_a_terminal(line));
  }
  CHECK(parsed > 200);
  CHECK(parsed < 5000);
}

TEST_CASE("mutated overrides apply or are refused") {
  Rng rng(3, Purpose::synthetic, 0);
  for (int i = 0; i < 3000; ++i) {
    const std::string key = mutate("evals.val.log_steps", rng),
                      value = mutate("{a: [1, 'b']}", rng);
    INFO(json_string(key + "=" + value));
    REQUIRE(fit_for_a_terminal(error_of([&] {
      const Config c =
          parse_config(kConfigs[0], "x.yaml", {{key, value, "--set " + key + "=" + value}});
      c.yaml();
      c.done();
      throw_problems(c);
    })));
  }
}

}  // namespace bv::test
