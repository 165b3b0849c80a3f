// The model that `bvtrain init --from` derives from weights: its config has the same parameters.
#include "lib/init/pretrained.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/model_card.h"
#include "lib/config/load_config.h"
#include "lib/model/model.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

constexpr const char* kFile = "w.npz";

// Returns the parameters of a model, with values that take almost no memory.
NamedTensors parameters(const std::string& name, const std::string& model, ModelEnv env) {
  const auto made = Model::Registry::make(name, parse_config(model, "model"), Place(), env);
  NamedTensors tree;
  for (const auto& [path, parameter] : named_parameters(*made))
    tree[path] = at::zeros({1}).expand(parameter.sizes());
  return tree;
}

Shapes shapes_of(const NamedTensors& tree) {
  Shapes shapes;
  for (const auto& [name, value] : tree) {
    if (!name.starts_with("head/")) shapes[name] = value.sizes().vec();
  }
  return shapes;
}

// Checks that the config of the model found in `tree` has the parameters `wanted`.
PretrainedModel check_found(const NamedTensors& tree, const NamedTensors& wanted, ModelEnv env) {
  PretrainedModel found = model_of_parameters(tree, kFile);
  INFO(found.model_name << " " << found.model);
  env.num_classes = 7;  // of other data
  CHECK(shapes_of(parameters(found.model_name, found.model, env)) == shapes_of(wanted));
  return found;
}

constexpr ModelEnv kImages{10, 32, 32, 3};

}  // namespace

TEST_CASE("a vit of any size and pooling is found by its parameters") {
  for (const char* model :
       {"{variant: mu/8}", "{variant: mu/8, pool_type: tok}", "{variant: mu/8, pool_type: map}",
        "{variant: mu/8, posemb: sincos2d}", "{variant: mu/8, scan: true}",
        "{width: 24, depth: 3, num_heads: 4, mlp_dim: 40, patch_size: [8, 4]}"}) {
    const NamedTensors tree = parameters("vit", model, kImages);
    NamedTensors plain = unstack_blocks(tree, kFile);
    const PretrainedModel found = check_found(tree, plain, kImages);
    CHECK(found.model_name == "vit");
    CHECK(found.fresh == std::vector<std::string>{"head/.*"});
    if (tree.contains("pos_embedding")) CHECK(found.image.height % 8 == 0);
  }
  const NamedTensors base = parameters("vit", "{variant: B/16, pool_type: tok}", {10, 224, 224, 3});
  PretrainedModel found = check_found(base, base, {10, 224, 224, 3});
  CHECK(found.model == "{variant: B/16, pool_type: tok}");
  CHECK(found.image == ImageSides{224, 224});
  CHECK(found.patch == 16);
  // timm's fused kernels do not reveal the number of heads: it is the usual one for the width.
  found = check_found(to_timm(base), base, {10, 224, 224, 3});
  CHECK(found.model == "{variant: B/16, pool_type: tok}");
  // Another number may be recorded beside them.
  const NamedTensors four = to_timm(parameters("vit", "{variant: mu/8, num_heads: 4}", kImages));
  CHECK(model_of_parameters(four, kFile).model == "{variant: mu/8, pool_type: gap}");
  CHECK(model_of_parameters(four, kFile, {.heads = 4}).model ==
        "{width: 32, depth: 1, mlp_dim: 128, num_heads: 4, patch_size: [8, 8], pool_type: gap}");
  CHECK(error_of([&] { model_of_parameters(four, kFile, {.heads = 5}); }) ==
        "w.npz: error: its metadata or the config.json next to it states 5 attention heads, which "
        "do not divide the width 32; correct the number there");
  const NamedTensors unusual = to_timm(parameters(
      "vit", "{width: 24, depth: 1, num_heads: 4, mlp_dim: 40, patch_size: [8, 8]}", kImages));
  CHECK(error_of([&] { model_of_parameters(unusual, kFile); }) ==
        "w.npz: error: the number of attention heads does not follow from its width 24; write "
        "model_name and model yourself");
}

TEST_CASE("the layer before the head starts fresh, too") {
  const NamedTensors tree = parameters("vit", "{variant: mu/8, rep_size: true}", kImages);
  CHECK(model_of_parameters(tree, kFile).fresh ==
        std::vector<std::string>{"head/.*", "pre_logits/.*"});
}

TEST_CASE("a mixer is found by its parameters, and keeps its image size") {
  const char* model =
      "{patch_size: [8, 8], hidden_dim: 12, num_blocks: 2, tokens_mlp_dim: 5, channels_mlp_dim: 6}";
  const NamedTensors tree = parameters("mlp_mixer", model, kImages);
  for (const NamedTensors& form : {tree, to_timm_mixer(tree)}) {
    const PretrainedModel found = check_found(form, tree, kImages);
    CHECK(found.image == ImageSides{32, 32});
    CHECK_FALSE(found.other_sizes);
  }
}

TEST_CASE("a BiT is found by its parameters") {
  const NamedTensors tree = parameters("bit_paper", "{depth: [1, 2, 1, 1], width: 0.5}", kImages);
  for (const NamedTensors& form : {tree, to_timm_bit(tree)}) {
    const PretrainedModel found = check_found(form, tree, kImages);
    CHECK(found.model == "{depth: [1, 2, 1, 1], width: 0.5}");
    CHECK(found.image == ImageSides{0, 0});
  }
}

TEST_CASE("a file of bvtrain export tells its model, image size and values") {
  const TempFolder dir;
  ModelCard card;
  card.version = "1";
  card.model_name = "cnn";
  card.model = R"({"widths":[4]})";
  card.num_classes = 2;
  card.pp = "decode(1)|resize(8)|value_range(0, 1)|keep(\"image\")";
  card.image = {8, 9, 1};
  card.loss = "softmax_xent";
  const std::string file = dir / "m.safetensors";
  write_safetensors(file, {{"params/head/bias", at::ones({2})}}, to_metadata(card));
  PretrainedModel found = inspect_weights(file);
  CHECK(found.model_name == "cnn");
  CHECK(parse_config(found.model, "m").get<std::vector<int64_t>>("widths") ==
        std::vector<int64_t>{4});
  CHECK(found.image == ImageSides{8, 9});
  CHECK(found.channels == 1);
  CHECK(found.scaling.target == ValueBounds{0, 1});
  CHECK_FALSE(found.other_sizes);

  card.pp = "keep(\"image\")";
  write_safetensors(file, {{"params/head/bias", at::ones({2})}}, to_metadata(card));
  found = inspect_weights(file);
  CHECK_FALSE(found.scaling.target);
  CHECK(found.scaling.normalize.empty());

  card.pp = std::nullopt;
  write_safetensors(file, {{"params/head/bias", at::ones({2})}}, to_metadata(card));
  CHECK(error_of([&] { inspect_weights(file); }) ==
        file +
            ": error: does not record how its images were preprocessed, as it has no pp_fn; write "
            "pp, pp_fn and model_init yourself");
}

TEST_CASE("a file of bvtrain export is refused unless its model exists and can load it") {
  const TempFolder dir;
  const std::string file = dir / "m.safetensors";
  ModelCard card;
  card.version = "1";
  card.model_name = "cnn";
  card.model = R"({"widths":[4]})";
  card.num_classes = 2;
  card.pp = "decode(1)|resize(8)|value_range(0, 1)|keep(\"image\")";
  card.image = {8, 9, 1};
  card.loss = "softmax_xent";
  const auto refused = [&](const NamedTensors& arrays) {
    write_safetensors(file, arrays, to_metadata(card));
    return error_of([&] {
      const PretrainedModel found = inspect_weights(file);
      require_loadable(found, found.image);
    });
  };
  NamedTensors good;
  for (const auto& [name, value] : parameters("cnn", "{widths: [4]}", {2, 8, 9, 1}))
    good["params/" + name] = value.contiguous();
  CHECK(refused(good) == "");
  CHECK_THAT(refused({{"params/a", at::ones({1})}}),
             Catch::StartsWith(file + ": error: missing in the file: "));
  card.model_name = "cnn\nwd: 0.5";
  CHECK_THAT(refused(good), Catch::Contains("unknown model 'cnn\\nwd: 0.5'"));
  card.model_name = "cnn";
  card.model = R"({"widths":[4],"x":"${HOME}"})";
  CHECK_THAT(refused(good), Catch::Contains("'x'"));
  CHECK_THAT(inspect_weights(file).model, Catch::Contains("\"$${HOME}\""));
  card.model = R"({"widths":[1000000000]})";
  CHECK_THAT(refused(good), Catch::Contains("too little for the model"));
}

TEST_CASE("averaged weights of a run have the model and the value range of the run") {
  const MemoryFolder dir;
  const std::string workdir = dir / "w";
  const Config config = parse_config(
      "model_name: cnn\nmodel: {widths: [4]}\nnum_classes: 2\nevals: {val: {pp_fn: 'value_range(0, "
      "1)'}}\n",
      "r.yaml");
  Snapshot snapshot;
  snapshot.step = 3;
  for (const char* name : {"params/head/bias", "ema/head/bias"})
    snapshot.tensors[name] = at::ones({2});
  snapshot.meta = {{"config", config.json()}, {"image", {8, 9, 1}}};
  Checkpointer checkpointer{Workdir(workdir)};
  checkpointer.save(std::move(snapshot), false);
  checkpointer.wait();
  for (const std::string& path : {workdir, workdir + ":ema"}) {
    const PretrainedModel found = inspect_weights(path);
    CHECK(found.path == path);
    CHECK(found.model_name == "cnn");
    CHECK(found.scaling.target == ValueBounds{0, 1});
  }
  CHECK_THAT(error_of([&] { inspect_weights(workdir + ":emma"); }),
             Catch::Contains("has nothing below 'emma'"));
}

// A folder as timm or Hugging Face writes it, with a vit of two heads.
struct VitFolder : TempFolder {
  VitFolder() {
    write_safetensors(*this / "model.safetensors",
                      to_timm(parameters("vit", "{variant: mu/8, pool_type: tok}", kImages)));
  }
};

TEST_CASE("timm's config.json tells the scaling, the evaluation's crop and the attention heads") {
  const VitFolder dir;
  const std::string file = dir / "model.safetensors";
  PretrainedModel found = inspect_weights(file);
  CHECK(found.scaling.target == ValueBounds{-1, 1});
  CHECK(found.scaling_note.find("replace that op by vgg_value_range") != std::string::npos);
  CHECK(found.heads_note.find("The config has 2, as published") != std::string::npos);
  CHECK(found.crop_share == 0);

  dir.write("config.json",
            R"({"architecture": "x", "model_args": {"num_heads": 4}, "pretrained_cfg": )"
            R"({"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], )"
            R"("crop_pct": 0.9, "crop_mode": "center", "interpolation": "bicubic"}})");
  for (const std::string& path : {dir.path(), file}) {
    found = inspect_weights(path);
    CHECK(found.scaling.target == ValueBounds{});
    CHECK(found.scaling.normalize == "vgg_value_range");
    CHECK(found.scaling_note.empty());
    CHECK(found.heads_note.empty());
    CHECK(found.model ==
          "{width: 32, depth: 1, mlp_dim: 128, num_heads: 4, patch_size: [8, 8], pool_type: tok}");
    CHECK(found.crop_share == 0.9);
    CHECK(found.resize_method == "bicubic");
  }
  // Old files have the keys at the top. A crop that is not of the centre is not imitated.
  dir.write("config.json", R"({"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], )"
                           R"("crop_pct": 1.0, "crop_mode": "squash"})");
  found = inspect_weights(file);
  CHECK(found.scaling.target == ValueBounds{-1, 1});
  CHECK(found.scaling_note.empty());
  CHECK(found.crop_share == 0);
}

TEST_CASE("timm's config.json tells the image size of a model whose images are not square") {
  const TempFolder dir;
  write_safetensors(dir / "model.safetensors",
                    to_timm(parameters("vit", "{variant: mu/8, pool_type: tok}", {10, 64, 16, 3})));
  // 8x2 tokens could be 4x4.
  CHECK(inspect_weights(dir.path()).image == ImageSides{32, 32});
  for (const char* text :
       {R"({"architecture": "x", "pretrained_cfg": {"input_size": [3, 64, 16]}})",
        R"({"architecture": "x", "model_args": {"img_size": [64, 16]}})"}) {
    dir.write("config.json", text);
    const PretrainedModel found = inspect_weights(dir.path());
    CHECK(found.image == ImageSides{64, 16});
    CHECK_FALSE(found.other_sizes);
  }
}

TEST_CASE("config.json is read beside weights of another name, if there are no others") {
  const TempFolder dir;
  const std::string file = dir / "deit.safetensors";
  write_safetensors(file, to_timm(parameters("vit", "{variant: mu/8, pool_type: tok}", kImages)));
  dir.write("config.json", R"({"architecture": "deit", "pretrained_cfg": )"
                           R"({"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}})");
  CHECK(inspect_weights(file).scaling.normalize == "vgg_value_range");

  const auto why = [&] {
    const std::string note = inspect_weights(file).scaling_note;
    return note.substr(0, note.find('\n'));
  };
  dir.write("other.npz", "x");
  CHECK(why() ==
        "config.json next to the weights is not read, because the folder holds other weights too "
        "(move the two files to a folder of their own).");
  std::filesystem::remove(dir / "other.npz");
  for (const char* text : {"", "[]", R"({"mean": [0.485], "std": [0.229]})"}) {
    dir.write("config.json", text);
    CHECK(why() ==
          "config.json next to the weights is not read, because it has none of the keys that timm "
          "or Hugging Face writes.");
  }
  std::filesystem::remove(dir / "config.json");
  CHECK(why() == "No file next to the weights states how pixel values were scaled.");
}

TEST_CASE("preprocessor_config.json of Hugging Face tells the scaling") {
  const VitFolder dir;
  const auto scaling = [&](const std::string& json) {
    dir.write("preprocessor_config.json", json);
    const PretrainedModel found = inspect_weights(dir.path());
    if (!found.scaling_note.empty()) return std::string("assumed");
    return value_range_call(*found.scaling.target, {}) + found.scaling.normalize;
  };
  const std::string whole = value_range_call({0, 255}, {});  // leaves values from 0 to 255
  const char* imagenet =
      R"({"do_rescale": true, "rescale_factor": 0.00392156862745098, )"
      R"("image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]})";
  CHECK(scaling(imagenet) == whole + "vgg_value_range");
  const char* clip = R"({"image_mean": [0.48145466, 0.4578275, 0.40821073], )"
                     R"("image_std": [0.26862954, 0.26130258, 0.27577711]})";
  CHECK(scaling(clip) == whole + "clip_value_range");
  CHECK(scaling(R"({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})") ==
        "value_range(-1, 1)");
  CHECK(scaling(R"({"image_mean": [0, 0, 0], "image_std": [1, 1, 1]})") == "value_range(0, 1)");
  CHECK(scaling(R"({"do_normalize": false, "image_mean": [0.5], "image_std": [0.5]})") ==
        "value_range(0, 1)");
  CHECK(scaling(R"({"do_rescale": false, "do_normalize": false})") == "value_range(0, 255)");
  CHECK(scaling(R"({"image_mean": [0.5, 0.25, 0.5], "image_std": 0.25})") ==
        whole + "vgg_value_range(mean=[127.5, 63.75, 127.5], std=[63.75, 63.75, 63.75])");
  for (const char* nothing : {"{}", R"({"image_mean": [0.5, 0.5], "image_std": [0.5, 0.5]})",
                              R"({"image_mean": ["0.5"], "image_std": [0.5]})",
                              R"({"image_mean": [0.5], "image_std": [0]})"})
    CHECK(scaling(nothing) == "assumed");
  for (const char* broken : {"", "{", "[]"}) {
    CHECK_THAT(
        error_of([&] { scaling(broken); }),
        Catch::StartsWith((dir / "preprocessor_config.json") + ": error: is not a JSON object, "));
  }
}

TEST_CASE("weights that the inferred model could not load are refused, as by a run") {
  const TempFolder dir;
  const std::string file = dir / "w.safetensors";
  const NamedTensors good = to_timm(parameters("vit", "{variant: mu/8, pool_type: tok}", kImages));
  write_safetensors(file, good);
  const PretrainedModel found = inspect_weights(file);
  // Position embeddings may be resampled. That is said by the run, not here.
  for (const ImageSides& image : {ImageSides{32, 32}, ImageSides{64, 64}})
    CHECK(logged([&] { require_loadable(found, image); }).empty());
  // The arrays, which may be large, are not read again.
  write_safetensors(file, {{"other", at::ones({1})}});
  CHECK(error_of([&] { require_loadable(found, {32, 32}); }) == "");

  NamedTensors bad = good;
  bad["blocks.0.ls1.gamma"] = at::ones({32});
  write_safetensors(file, bad);
  const auto refused = [&] {
    return error_of([&] { require_loadable(inspect_weights(file), {32, 32}); });
  };
  CHECK(refused() == file +
                         ": error: not in the model: blocks.0.ls1.gamma (model_load: {dont_load: "
                         "[PATTERN, ...]} leaves names out)");
  // timm's class_token=False, global_pool='avg'.
  bad = good;
  for (const char* name : {"weight", "bias"}) {
    bad[std::string("fc_norm.") + name] = bad.at(std::string("norm.") + name);
    bad.erase(std::string("norm.") + name);
  }
  write_safetensors(file, bad);
  CHECK(refused() == file +
                         ": error: missing in the file: Transformer/encoder_norm/bias, "
                         "Transformer/encoder_norm/scale; not in the model: fc_norm.bias, "
                         "fc_norm.weight (model_load: {dont_load: [PATTERN, ...]} leaves names "
                         "out)");
}

TEST_CASE("parameters without elements are refused") {
  const std::string block = "Transformer/encoderblock_0/";
  const std::string query = block + "MultiHeadDotProductAttention_0/query/bias";
  const auto refused = [](const NamedTensors& tree) {
    return error_of([&] { model_of_parameters(tree, kFile); });
  };
  CHECK(refused({{"embedding/kernel", at::ones({16, 16, 3, 1})}, {query, at::ones({0, 64})}}) ==
        "w.npz: error: '" + query + "' has shape (0, 64), which no model has");
  CHECK(refused({{"embedding/kernel", at::ones({0, 0, 3, 64})},
                 {query, at::ones({1, 64})},
                 {block + "MlpBlock_0/Dense_0/kernel", at::ones({64, 0})}}) ==
        "w.npz: error: 'embedding/kernel' has shape (0, 0, 3, 64), which no model has");
  CHECK(refused({{"embedding/kernel", at::ones({4, 4, 3, 64})},
                 {query, at::ones({1, 64})},
                 {block + "MlpBlock_0/Dense_0/kernel", at::ones({64, 0})}}) ==
        "w.npz: error: '" + block +
            "MlpBlock_0/Dense_0/kernel' has shape (64, 0), which no model has");
  CHECK(refused({{"patch_embed.proj.weight", at::ones({0, 3, 16, 16})}}) ==
        "w.npz: error: 'patch_embed.proj.weight' has shape (0, 3, 16, 16), which no model has");
}

TEST_CASE("weights of which no model is known are refused") {
  const TempFolder dir;
  const std::string file = dir / "w.npz";
  write_npz(file, {{"layer/kernel", at::ones({2, 2})}});
  CHECK(error_of([&] { inspect_weights(file); }) ==
        file +
            ": error: its model is not known; expected weights of a vit, mlp_mixer or bit_paper "
            "(big_vision, timm, Hugging Face), a file of `bvtrain export` or a workdir");
  write_npz(file, {{"embedding/kernel", at::ones({2, 2, 3, 64})}});
  CHECK(error_of([&] { inspect_weights(file); }) ==
        file +
            ": error: 'Transformer/encoderblock_0/MlpBlock_0/Dense_0/kernel' is missing or has "
            "another shape than in a model that can be fine-tuned; write model_name and model "
            "yourself");
}

}  // namespace bv::test
