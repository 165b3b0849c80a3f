// The model card: round trips, and errors for bad files.
#include "lib/ckpt/model_card.h"

#include <ATen/ops/ones.h>

#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/weights_file.h"
#include "test/ckpt/support.h"

namespace bv::test {
namespace {

ModelCard example() {
  ModelCard card;
  card.version = "1.2";
  card.model_name = "vit";
  card.model = R"({"patch_size":[4,4],"variant":"mu"})";
  card.num_classes = 3;
  card.class_names = {"a", "", "ö \"quoted\"\n"};
  card.pp = "decode|resize(8, method=\"area\")";
  card.image = {8, 9, 1};
  card.image_values = {-1, 0.1};
  card.precision = "bf16";
  card.loss = "softmax_xent";
  card.max_pixels = 50000000;
  card.step = 12;
  card.multilabel = true;
  card.ema = true;
  return card;
}

std::string refused_card(const std::string& key, const std::string& value) {
  Metadata metadata = to_metadata(example());
  metadata["bvtrain." + key] = value;
  return error_of([&] { parse_model_card(metadata, "f"); });
}

}  // namespace

TEST_CASE("a model card comes back from every format") {
  const MemoryFolder folder;
  const Metadata written = to_metadata(example());
  Metadata others = written;
  others["format"] = "pt";
  write_safetensors(folder / "f.safetensors", {{"params/a", at::ones({2})}}, others);
  write_npz(folder / "f.npz", {{"params/a", at::ones({2})}},
            {{kModelCardArray, {metadata_json(written)}}});
  for (const std::string name : {"f.safetensors", "f.npz"}) {
    INFO(name);
    const auto card = parse_model_card(read_weights_metadata(folder / name), folder / name);
    REQUIRE(card);
    CHECK(to_metadata(*card) == written);
    CHECK(card->class_names == example().class_names);
    CHECK(card->image == example().image);
    CHECK(card->image_values == example().image_values);
    CHECK(card->max_pixels == 50000000);
    CHECK(card->step == 12);
    CHECK(card->multilabel);
    CHECK(card->ema);
    CHECK(read_weights(folder / name, 8).size() == 1);
  }
  CHECK(written.at("bvtrain.model") == R"({"patch_size":[4,4],"variant":"mu"})");
  CHECK(written.at("bvtrain.image") == "[8,9,1]");
  CHECK(written.at("bvtrain.image_values") == "[-1.0,0.1]");
}

TEST_CASE("what is unknown has no key, and files of others have no card") {
  ModelCard card;
  card.model_name = "cnn";
  card.loss = "sigmoid_xent";
  const Metadata metadata = to_metadata(card);
  CHECK(metadata.size() == 6);
  const auto read = parse_model_card(metadata, "f");
  REQUIRE(read);
  CHECK_FALSE(read->pp);
  CHECK_FALSE(read->max_pixels);
  CHECK_FALSE(read->step);
  CHECK_FALSE(read->multilabel);
  CHECK(read->precision.empty());
  CHECK(read->image.empty());
  CHECK(read->image_values.empty());
  CHECK_FALSE(parse_model_card({{"format", "pt"}}, "f"));
  CHECK_FALSE(parse_model_card({}, "f"));
}

TEST_CASE("a bad model card is refused by key") {
  for (const std::string key : {"version", "model_name", "model", "num_classes", "loss", "ema"}) {
    Metadata metadata = to_metadata(example());
    metadata.erase("bvtrain." + key);
    CHECK(error_of([&] { parse_model_card(metadata, "f"); }) ==
          "f: error: its metadata has no 'bvtrain." + key +
              "'; export the file again, or give --config with the keys of the model");
  }
  const std::string its = "f: error: its metadata 'bvtrain.";
  CHECK(refused_card("num_classes", "ten") == its + "num_classes' is \"ten\", expected an integer");
  CHECK(refused_card("num_classes", "-1") == its + "num_classes' is \"-1\", expected an integer");
  CHECK(refused_card("num_classes", "4") ==
        its + "class_names' has 3 names, but 'bvtrain.num_classes' is 4");
  CHECK(refused_card("class_names", "[\"a\",1,\"b\"]") ==
        its + R"(class_names' is "[\"a\",1,\"b\"]", expected a JSON list of strings)");
  CHECK(refused_card("class_names", "[\"a\",\"b\"") ==
        its + R"(class_names' is "[\"a\",\"b\"", expected a JSON list of strings)");
  CHECK(refused_card("class_names", "{}") ==
        its + "class_names' is \"{}\", expected a JSON list of strings");
  CHECK(refused_card("model", "[]") == its + "model' is \"[]\", expected a JSON object");
  CHECK(refused_card("model", std::string(100'000, '[')) ==
        its + "model' is longer than 65536 bytes");
  CHECK(refused_card("model", "{\"a\":" + std::string(60'000, '[')) ==
        its + R"(model' is "{\"a\":)" + std::string(55, '[') + "...\", expected a JSON object");
  CHECK(refused_card("model", "{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}") ==
        its + R"(model' is "{\"a\":)" + std::string(55, '[') + "...\", expected a JSON object");
  CHECK(refused_card("image", "[8,8]") ==
        its + "image' is \"[8,8]\", expected [height, width, channels]");
  CHECK(refused_card("image", "[8,0,3]") ==
        its + "image' is \"[8,0,3]\", expected [height, width, channels]");
  CHECK(refused_card("image", "[18446744073709551615,8,3]") ==
        its + "image' is \"[18446744073709551615,8,3]\", expected [height, width, channels]");
  for (const std::string values : {"[1]", "{}", "[1,", "[2,1]", "[null,1]"}) {
    CHECK(refused_card("image_values", values) ==
          its + "image_values' is \"" + values + "\", expected [min, max]");
  }
  CHECK(refused_card("precision", "fp8") ==
        its + "precision' is \"fp8\", expected float32 or bf16");
  CHECK(refused_card("ema", "\x1b[2J") == its + "ema' is \"\\u001b[2J\", expected true or false");
  CHECK(refused_card("step", "1e3") == its + "step' is \"1e3\", expected an integer");
}

TEST_CASE("the card of an npz file must be one JSON object of strings") {
  const MemoryFolder folder;
  const auto refused = [&](const std::vector<std::string>& texts) {
    write_npz(folder / "f.npz", {{"params/a", at::ones({2})}}, {{kModelCardArray, texts}});
    return error_of([&] { read_weights_metadata(folder / "f.npz"); });
  };
  const std::string its = (folder / "f.npz") + ": error: its array '__bvtrain__' ";
  CHECK(refused({"{}", "{}"}) == its + "holds 2 strings, expected 1");
  for (const std::string text : {"", "{", "[]", "{\"a\":1}", "{\"a\":{\"b\":\"c\"}}"}) {
    INFO(text);
    CHECK(refused({text}) == its + "is not a JSON object of strings");
  }
  CHECK(refused({"{\"a\":" + std::string(1'000'000, '[')}) ==
        its + "is not a JSON object of strings");
}

TEST_CASE("a damaged model card never crashes") {
  std::mt19937 random(7);
  const Metadata whole = to_metadata(example());
  for (int i = 0; i < 3000; ++i) {
    Metadata metadata = whole;
    auto victim = metadata.begin();
    std::advance(victim, std::uniform_int_distribution<size_t>(0, whole.size() - 1)(random));
    victim->second = mutated(victim->second, random);
    try {
      const auto card = parse_model_card(metadata, "f");
      REQUIRE(card);
      CHECK((card->class_names.empty() || std::ssize(card->class_names) == card->num_classes));
    } catch (const Error& error) {
      CHECK(error.code() == Exit::usage);
    }
  }
}

}  // namespace bv::test
