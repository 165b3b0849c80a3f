// What timm's config.json states about a vit: its pooling and the size of its images.
#include "lib/train/weights/stored_arguments.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/model_card.h"
#include "lib/train/weights/weights.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/logged.h"
#include "test/support/model.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

std::unique_ptr<Model> vit_for(const std::string& pool, int64_t height, int64_t width) {
  auto model = make_model("vit", "{variant: mu/8, pool_type: " + pool + "}", {3, height, width, 3});
  init_parameters(*model, 3, std::nullopt);
  return model;
}

NamedTensors timm_arrays(const Model& model) {
  NamedTensors all;
  for (const auto& [name, value] : named_parameters(model)) all[name] = value.detach().clone();
  return to_timm(all);
}

}  // namespace

TEST_CASE("timm's weights are not read with another pooling than config.json states") {
  const TempFolder folder;
  const std::string file = folder / "model.safetensors";
  const auto load_error = [&](const Model& model, const std::string& config) {
    write_safetensors(file, timm_arrays(model));
    folder.write("config.json", config);
    return error_of([&] { plan_weights(file, model, {}); });
  };
  const auto tok = vit_for("tok", 16, 16), gap = vit_for("gap", 16, 16),
             map = vit_for("map", 16, 16);
  const auto problem = [&](const std::string& stated, const std::string& own) {
    return file +
           ": error: its metadata or the config.json next to it states global_pool: " + stated +
           ", but bvtrain pools weights with these arrays as timm's '" + own +
           "' does, so the outputs would be wrong; to fine-tune these weights anyway, write '" +
           own + "' there";
  };
  // After reset_classifier(n, 'avg') the arrays have the same names.
  CHECK(load_error(*tok, R"({"global_pool": "avg"})") == problem("avg", "token"));
  CHECK(load_error(*tok, R"({"model_args": {"global_pool": "max"}})") == problem("max", "token"));
  CHECK(load_error(*gap, R"({"global_pool": "max"})") == problem("max", "avg"));
  CHECK(load_error(*map, R"({"global_pool": "avg"})") == problem("avg", "map"));
  CHECK(load_error(*tok, R"({"global_pool": "token", "model_args": {"global_pool": "avg"}})") ==
        "");
  CHECK(load_error(*gap, R"({"global_pool": "avg"})") == "");
  CHECK(load_error(*map, R"({"global_pool": "map"})") == "");
  for (const char* nothing : {"{}", R"({"global_pool": ""})", R"({"global_pool": 3})"})
    CHECK(load_error(*tok, nothing) == "");
}

TEST_CASE("timm's config.json records the grid of the position embedding") {
  const TempFolder folder;
  const std::string file = folder / "model.safetensors";
  const auto wide = vit_for("tok", 64, 16);  // 8x2 tokens, which could be 4x4
  write_safetensors(file, timm_arrays(*wide));
  const auto positions = [&](const std::string& config) {
    folder.write("config.json", config);
    const auto model = vit_for("tok", 64, 16);
    for (const WeightCopy& copy : plan_weights(file, *model, {}))
      if (copy.name == "pos_embedding") return copy.from;
    return at::Tensor();
  };
  at::Tensor own;
  for (const auto& [name, value] : named_parameters(*wide))
    if (name == "pos_embedding") own = value.detach();
  const std::string guess = "it does not record the grid of its 16 position embeddings";
  for (const char* config : {R"({"model_args": {"img_size": [64, 16]}})",
                             R"({"pretrained_cfg": {"input_size": [3, 64, 16]}})",
                             R"({"model_args": {"img_size": [64, 16]}, )"
                             R"("pretrained_cfg": {"input_size": [3, 32, 32]}})"}) {
    INFO(config);
    const std::string lines = logged([&] { CHECK(positions(config).equal(own)); });
    CHECK_FALSE(contains(lines, "resampled"));
  }
  // Sizes of other images, and what is no size.
  for (const char* config :
       {"{}", R"({"pretrained_cfg": {"input_size": [3, 64, 32]}})",
        R"({"model_args": {"img_size": 0}})", R"({"model_args": {"img_size": [64]}})",
        R"({"model_args": {"img_size": [-64, -16]}})", R"({"pretrained_cfg": [64, 16]})",
        R"({"model_args": {"img_size": ["64", 16]}})", R"({"model_args": {"img_size": []}})"}) {
    INFO(config);
    CHECK(contains(logged([&] { positions(config); }), guess));
  }
}

TEST_CASE("a timm file of bvtrain export has bvtrain's formulas, so nothing is warned of") {
  const TempFolder folder;
  const std::string file = folder / "t.safetensors";
  const auto model = vit_for("tok", 16, 16);
  const auto warns = [&](const Metadata& about) {
    write_safetensors(file, timm_arrays(*model), about);
    return contains(logged([&] { plan_weights(file, *model, {}); }), "weights of timm: ");
  };
  CHECK(warns({}));
  CHECK_FALSE(warns({{"timm_class", "VisionTransformer"}, {"timm", R"({"num_heads": 2})"}}));
}

}  // namespace bv::test
