// The number of attention heads, which the arrays of timm and Hugging Face do not show.
#include "lib/train/weights/attention_heads.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/model_card.h"
#include "lib/train/weights/weights.h"
#include "lib/util/limits.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/logged.h"
#include "test/support/model.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

std::unique_ptr<Model> vit(const std::string& yaml) {
  auto model = make_model("vit", yaml, {3, 32, 32, 3});
  init_parameters(*model, 3, std::nullopt);
  return model;
}

NamedTensors vit_parameters(const Model& model) {
  NamedTensors all;
  for (const auto& [name, value] : named_parameters(model)) all[name] = value.detach();
  return all;
}

}  // namespace

TEST_CASE("timm's weights are not read with another number of heads than they record") {
  const TempFolder folder;
  const std::string path = folder / "t.safetensors";
  const auto two = vit("{variant: mu/8}"), four = vit("{variant: mu/8, num_heads: 4}");
  const NamedTensors timm = to_timm(vit_parameters(*two));

  const Metadata about = {{"timm", R"({"num_heads": 2})"}};
  write_safetensors(path, timm, about);
  CHECK(error_of([&] { plan_weights(path, *four, {}); }) ==
        path +
            ": error: its weights have 2 attention heads, but the config's model has 4; write "
            "model.num_heads: 2");
  CHECK(error_of([&] { plan_weights(path, *two, {}); }) == "");

  // Published models of this width have 2 heads.
  const std::string warning =
      path +
      ": its arrays do not show how many attention heads its model has; they are read with "
      "model.num_heads: 4, but published models of width 32 have 2";
  for (const std::string text : {"", "[2]", R"({"num_heads": "2"})"}) {
    const Metadata none = {{"timm", text}};
    write_safetensors(path, timm, text.empty() ? Metadata() : none);
    CHECK(contains(logged([&] { plan_weights(path, *four, {}); }), warning));
    CHECK_FALSE(contains(logged([&] { plan_weights(path, *two, {}); }), "attention heads"));
  }

  // The arrays of big_vision show their number.
  write_safetensors(path, vit_parameters(*four));
  CHECK_FALSE(contains(logged([&] { plan_weights(path, *four, {}); }), "attention heads"));
}

TEST_CASE(
    "config.json of Hugging Face or timm records the number of heads of the weights beside it") {
  const TempFolder folder;
  const NamedTensors names = {
      {"vit.embeddings.patch_embeddings.projection.weight", at::zeros({1})}};
  const Shapes wanted = {
      {"Transformer/encoderblock_0/MultiHeadDotProductAttention_0/query/bias", {12, 32}}};
  const std::string file = folder / "model.safetensors", other = folder / "other.safetensors";
  write_safetensors(file, names);
  write_safetensors(other, names);
  folder.write("config.json", R"({"num_attention_heads": 6, "hidden_size": 384})");
  for (const std::string& path : {folder.path(), file}) {
    CHECK(stored_heads(path) == 6);
    CHECK(error_of([&] { check_heads(names, wanted, path); }) ==
          path +
              ": error: its weights have 6 attention heads, but the config's model has 12; write "
              "model.num_heads: 6");
  }
  CHECK(stored_heads(other) == 0);
  folder.write("config.json", R"({"num_attention_heads": 5})");
  CHECK(error_of([&] { check_heads(names, wanted, file); }) ==
        file +
            ": error: its metadata or the config.json next to it states 5 attention heads, which "
            "do not divide the width 384; correct the number there");
  // timm's names the arguments of its model.
  folder.write("config.json", R"({"architecture": "vit", "model_args": {"num_heads": 4}})");
  CHECK(stored_heads(folder.path()) == 4);
  CHECK(stored_heads(file) == 4);
  for (const char* text : {"{}", R"({"num_attention_heads": -6})", R"({"model_args": 3})",
                           R"({"model_args": {"num_heads": "4"}})"}) {
    folder.write("config.json", text);
    CHECK(stored_heads(file) == 0);
  }
  // A file that cannot be read may state a number.
  for (const char* text : {"", "{", "[]", "<html></html>", R"({"num_attention_heads": 6)"}) {
    folder.write("config.json", text);
    for (const std::string& path : {folder.path(), file}) {
      CHECK(error_of([&] { check_heads(names, wanted, path); }) ==
            (folder / "config.json") +
                ": error: is not a JSON object, which should describe the weights in the same "
                "folder; download it again, or move it away");
    }
    CHECK(stored_heads(other) == 0);
  }
  folder.write("config.json", R"({"num_attention_heads": 6, "x": ")" +
                                  std::string(limits::kConfigBytes, 'x') + "\"}");
  CHECK_THAT(error_of([&] { stored_heads(file); }),
             Catch::StartsWith((folder / "config.json") + ": error: "));
}

}  // namespace bv::test
