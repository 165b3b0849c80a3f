// Export: there is a writer for every model; it rejects what it cannot write; a flexi_vit is
// written as the plain vit of its seqhw. scripts/golden/check_export.py checks the results of other
// programs.
#include "lib/export/export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/weights_file.h"
#include "lib/config/load_config.h"
#include "lib/export/vit_weights.h"
#include "lib/export/weights_writer.h"
#include "lib/model/model.h"
#include "lib/model/target_scale.h"
#include "lib/train/weights/weights.h"
#include "lib/util/file.h"
#include "test/export/small_models.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

std::string refusal(const TrainedModel& what, const std::string& format) {
  const MemoryFolder folder;
  const std::string line = error_of([&] { export_weights(what, format, folder / "f"); });
  CHECK((line.empty() || !file_exists(folder / "f")));
  return line;
}

NamedTensors weights_of(const Model& model) {
  NamedTensors all;
  for (const auto& [name, value] : named_parameters(model)) all[name] = value.detach();
  return all;
}

}  // namespace

TEST_CASE("export: every model can be written as ONNX, and the same weights give the same file") {
  const MemoryFolder folder;
  for (const std::string& name : Model::Registry::names()) {
    INFO(name);
    const TrainedModel what = trained(name, small(name));
    export_weights(what, "onnx", folder / "a");
    export_weights(what, "onnx", folder / "b");
    const std::string file = read_file(folder / "a");
    CHECK(file == read_file(folder / "b"));
    // It contains all parameters: 4 bytes each, standardised or not.
    size_t bytes = 0;
    for (const auto& [path, value] : what.params) bytes += value.nbytes();
    CHECK(file.size() > bytes);
    CHECK(file.find("logits") != std::string::npos);
  }
}

TEST_CASE("export: every format carries the same metadata") {
  const MemoryFolder folder;
  TrainedModel what = trained("vit", small("vit"));
  what.card.version = "1.2";
  what.card.model_name = "vit";
  what.card.loss = "softmax_xent";
  what.card.class_names = {"a", "b", "c", "d", "e", "f", "g"};
  const Metadata about = metadata_of(what);
  CHECK(about.at("bvtrain.image") == "[32,32,3]");
  for (const std::string format : {"npz", "safetensors", "timm"}) {
    INFO(format);
    export_weights(what, format, folder / format);
    Metadata read = read_weights_metadata(folder / format);
    if (format == "timm") {
      CHECK(read.extract("format").mapped() == "pt");
      CHECK(read.extract("timm_class").mapped() == "VisionTransformer");
      read.erase("timm");
    }
    CHECK(read == about);
  }
  export_weights(what, "onnx", folder / "onnx");
  const std::string graph = read_file(folder / "onnx");
  for (const auto& [key, value] : about) {
    INFO(key);
    const size_t at = graph.find(key);
    REQUIRE(at != std::string::npos);
    CHECK(graph.compare(at + key.size() + 2, value.size(), value) == 0);  // field number, length
  }
  // A vit's square image size is known even if the run did not record it.
  what.image = {};
  CHECK(!metadata_of(what).contains("bvtrain.image"));
  export_weights(what, "timm", folder / "timm");
  CHECK(read_weights_metadata(folder / "timm").at("bvtrain.image") == "[32,32,3]");
}

TEST_CASE("export: class names that a format cannot hold are left out with a warning") {
  const MemoryFolder folder;
  TrainedModel what = trained("vit", small("vit"));
  const auto told = [&](const std::string& format, size_t bytes) {
    what.card.class_names = std::vector<std::string>(7, "n");
    what.card.class_names[0] = std::string(bytes, 'a');
    return logged([&] { export_weights(what, format, folder / format); });
  };
  for (const std::string format : {"safetensors", "timm", "npz"}) {
    INFO(format);
    const size_t most = (format == "npz" ? size_t{16} : size_t{8}) << 20;
    CHECK(told(format, most - (size_t{1} << 20)).find("left out") == std::string::npos);
    CHECK(read_weights_metadata(folder / format).contains("bvtrain.class_names"));
    CHECK(told(format, most).find((folder / format) + ": the 7 class names are left out: with ") !=
          std::string::npos);
    CHECK_FALSE(read_weights_metadata(folder / format).contains("bvtrain.class_names"));
    CHECK(read_weights_metadata(folder / format).at("bvtrain.num_classes") == "0");
  }
}

TEST_CASE("export: timm's vit takes whole patches only, which a warning says") {
  const MemoryFolder folder;
  const auto told = [&](ImageSize image) {
    return logged(
        [&] { export_weights(trained("vit", small("vit"), image), "timm", folder / "timm"); });
  };
  CHECK(told({48, 64, 3}).find("whole patches") == std::string::npos);
  CHECK(told({50, 70, 3})
            .find("cut those of 50x70 to their first 48 rows and 64 columns, which "
                  "are all that the model uses") != std::string::npos);
  const Metadata metadata = read_weights_metadata(folder / "timm");
  CHECK(metadata.at("timm").find("\"img_size\":[48,64]") != std::string::npos);
}

TEST_CASE("export: a checkpoint gives its metadata, but not class names of another number") {
  Restored checkpoint;
  checkpoint.step = 7;
  checkpoint.folder = "ckpt/step-7";
  const std::string config =
      "{model_name: cnn, num_classes: 2, loss: softmax_xent, evals: {first: {type: save}, "
      "second: {pp_fn: resize(4)}, third: {pp_fn: resize(5)}}}";
  checkpoint.meta = {
      {"config", config}, {"precision", "bf16"}, {"image", {4, 5, 3}}, {"class_names", {"a", "b"}}};
  const TrainedModel whole = load_trained_model(checkpoint, false);
  CHECK(whole.card.pp == "resize(4)");
  CHECK(whole.card.precision == "bf16");
  CHECK(whole.card.step == 7);
  CHECK(whole.card.class_names == std::vector<std::string>{"a", "b"});
  CHECK(metadata_of(whole).at("bvtrain.image") == "[4,5,3]");
  checkpoint.meta["class_names"] = {"a", "b", "c"};
  CHECK(load_trained_model(checkpoint, false).card.class_names.empty());
  checkpoint.meta = {{"config", config}};  // of an older version
  const Metadata old = metadata_of(load_trained_model(checkpoint, false));
  CHECK(!old.contains("bvtrain.precision"));
  CHECK(!old.contains("bvtrain.class_names"));
}

TEST_CASE(
    "export: own formats keep the scale of a regression's targets, others have it in the head") {
  const MemoryFolder folder;
  TrainedModel what = trained("vit", small("vit"));
  what.buffers[kTargetMean] = at::arange(7, at::kFloat) * 10;
  what.buffers[kTargetStd] = at::arange(1, 8, at::kFloat);
  for (const std::string format : {"npz", "safetensors", "timm", "onnx"})
    export_weights(what, format, folder / format);
  for (const std::string format : {"npz", "safetensors"}) {
    INFO(format);
    const NamedTensors file = read_weights(folder / format, 0);
    CHECK(file.at("head/kernel").equal(what.params.at("head/kernel")));
    CHECK(file.at("buffers/targets/mean").equal(what.buffers.at(kTargetMean)));
    CHECK(file.at("buffers/targets/std").equal(what.buffers.at(kTargetStd)));
  }
  NamedTensors params = what.params, buffers = what.buffers;
  fold_target_scale(params, buffers, "t", 1);
  for (const std::string format : {"npz", "timm"}) {
    INFO(format);
    const auto loaded = build("vit", small("vit"), what.image, 2);
    load_weights(folder / format, *loaded, {});
    CHECK(weights_of(*loaded).at("head/kernel").equal(params.at("head/kernel")));
    CHECK(weights_of(*loaded).at("head/bias").equal(params.at("head/bias")));
  }
  TrainedModel folded = what;
  folded.params = params;
  folded.buffers = buffers;
  export_weights(folded, "onnx", folder / "folded.onnx");
  CHECK(read_file(folder / "onnx") == read_file(folder / "folded.onnx"));

  const std::string config =
      fmt::format("{{model_name: vit, model: {}, num_classes: 7, task: regress, model_init: '{}'}}",
                  small("vit"), folder / "npz");
  const TrainedModel again =
      load_trained_model(parse_config(config, "c.yaml"), std::optional(what.image));
  CHECK(again.params.at("head/kernel").equal(what.params.at("head/kernel")));
  CHECK(again.buffers.at(kTargetMean).equal(what.buffers.at(kTargetMean)));
  Restored checkpoint;
  checkpoint.meta = {{"config", config}};
  for (const auto& [name, value] : what.params) checkpoint.tensors["params/" + name] = value;
  for (const auto& [name, value] : what.buffers) checkpoint.tensors["buffers/" + name] = value;
  const TrainedModel restored = load_trained_model(checkpoint, false);
  CHECK(restored.params.at("head/bias").equal(what.params.at("head/bias")));
  CHECK(restored.buffers.at(kTargetStd).equal(what.buffers.at(kTargetStd)));
}

TEST_CASE("export: a writer's file is named after its format and model") {
  const std::vector<std::string> models = Model::Registry::names();
  for (const std::string& name : WeightsWriter::Registry::names()) {
    INFO(name);
    const std::string model = name.substr(name.find('/') + 1);
    CHECK((name.starts_with("onnx/") || name.starts_with("timm/")));
    CHECK(std::find(models.begin(), models.end(), model) != models.end());
  }
}

TEST_CASE("export: timm's files load back to the bit") {
  const MemoryFolder folder;
  for (const std::string name : {"vit", "mlp_mixer", "bit_paper"}) {
    INFO(name);
    const TrainedModel what = trained(name, small(name));
    export_weights(what, "timm", folder / "t.safetensors");
    const auto loaded = build(name, small(name), what.image, 2);
    load_weights(folder / "t.safetensors", *loaded, {});
    for (const auto& [path, value] : weights_of(*loaded)) {
      INFO(path);
      CHECK(value.equal(what.params.at(path)));
    }
  }
}

TEST_CASE("export: a vit with fixed position embeddings can be read back from timm's file") {
  const MemoryFolder folder;
  const ImageSize image = {16, 24, 3}, larger = {32, 24, 3};
  for (const char* pool : {"tok", "gap"}) {
    INFO(pool);
    const std::string yaml =
        fmt::format("{{variant: mu/8, posemb: sincos2d, pool_type: {}}}", pool);
    const TrainedModel what = described("vit", yaml, image);
    export_weights(what, "timm", folder / "t.safetensors");
    CHECK(read_weights(folder / "t.safetensors", 0).contains("pos_embed"));
    for (const ImageSize size : {image, larger}) {
      const auto loaded = build("vit", yaml, size, 2);
      load_weights(folder / "t.safetensors", *loaded, {});
      for (const auto& [path, value] : weights_of(*loaded)) {
        INFO(path);
        CHECK(value.equal(what.params.at(path)));
      }
    }
    // Positions that were trained are not those of the model.
    NamedTensors other = what.params;
    other["pos_embedding"] = at::zeros({1, 6, 32});
    write_npz(folder / "o.npz", other);
    const auto model = build("vit", yaml, image, 2);
    CHECK_THAT(error_of([&] { load_weights(folder / "o.npz", *model, {}); }),
               Catch::Contains("not in the model: pos_embedding"));
  }
}

TEST_CASE("export: models that a format can't hold, and sizes that do not fit, are refused") {
  CHECK(refusal(trained("cnn", small("cnn")), "timm") ==
        "--format timm: error: model 'cnn' can't be written as timm; known: bit_paper, flexi_vit, "
        "mlp_mixer, proj.flexi.vit, vit (npz and safetensors hold every model)");
  const std::string unknown =
      "t: error: the size of the model's images is not known; give --image-size HEIGHT,WIDTH";
  for (const std::string& name : Model::Registry::names()) {
    INFO(name);
    TrainedModel what = trained(name, small(name));
    what.image = {};
    if (name != "vit") CHECK(refusal(what, "onnx") == unknown);  // a vit has its grid
    what.params.erase(what.params.begin()->first);
    what.image = {32, 32, 3};
    CHECK(refusal(what, "onnx") != "");
  }
  TrainedModel what = trained("cnn", small("cnn"));
  what.image = {32, 36, 3};
  CHECK(refusal(what, "onnx") ==
        "t: error: Dense_0 takes 1024 features, but images of 32x36 give 1152");
  what.image = {2, 32, 3};
  CHECK(refusal(what, "onnx") ==
        "t: error: windows of 2x2 leave nothing of 1x16: the images are too small");
  what = trained("mlp_mixer", small("mlp_mixer"));
  what.image = {32, 24, 3};
  CHECK(refusal(what, "onnx") ==
        "t: error: MixerBlock_0/token_mixing/Dense_0 takes 16 features, but images of 32x24 give "
        "12");
  what.image = {31, 32, 3};
  CHECK(refusal(what, "onnx").empty());
  CHECK(refusal(what, "timm") ==
        "--format timm: error: images of 31x32 are padded to whole patches of 8x8, which timm's "
        "MlpMixer does not do; use npz, safetensors or onnx");
  what = trained("flexi_vit", small("flexi_vit"));
  what.image = {2, 32, 3};
  CHECK(refusal(what, "onnx") == "t: error: images of 2x32 can't be cut into patches of 0x10");
  what = trained("bit_paper", small("bit_paper"));
  what.params["norm-pre-head/scale"] = at::ones({1, 1, 1, 32});
  CHECK(refusal(what, "onnx") ==
        "t: error: norm-pre-head/scale has shape (1, 1, 1, 32), expected (256, 1, 1)");
  what = trained("vit", small("vit"));
  what.params["embedding/kernel"] = at::ones({0, 8, 3, 32});
  CHECK(refusal(what, "timm") ==
        "t: error: 'embedding/kernel' has shape (0, 8, 3, 32), which no model has");
  what = trained("resnet_cifar", small("resnet_cifar"));
  what.buffers.erase("stage1/norm/var");
  CHECK(refusal(what, "onnx") == "t: error: the model has no buffer stage1/norm/var");
  what = trained("vit", "{variant: mu/8, rep_size: 9}");
  CHECK(refusal(what, "timm") ==
        "--format timm: error: the model has rep_size, a layer that timm's VisionTransformer "
        "lacks; use npz, safetensors or onnx");
  CHECK(refusal(trained("vit", "{variant: mu/8, pool_type: '0'}"), "timm") ==
        "--format timm: error: the model has pool_type: '0', which takes the first patch, but "
        "timm's VisionTransformer needs a class token for that; use npz, safetensors or onnx");
}

TEST_CASE("export: flexi_vit is the vit that it is at its seqhw") {
  const MemoryFolder folder;
  const ImageSize image = {35, 30, 3};
  const at::Tensor pixels =
      at::randn({3, 35, 30, 3}, at::detail::createCPUGenerator(5), at::kFloat);
  for (const std::string posemb : {"learn", "sincos2d"}) {
    // The last ones have 4x3 patches, for 3x4 positions.
    for (const std::string more : {"patch_size: [6, 6], seqhw: 5", "patch_size: [6, 6], seqhw: 2",
                                   "patch_size: [6, 6]", "patch_size: [8, 10]"}) {
      const std::string keys = "variant: mu, depth: 2, pool_type: tok, posemb: " + posemb;
      const std::string yaml = fmt::format("{{{}, posemb_size: [3, 4], {}}}", keys, more);
      INFO(yaml);
      const TrainedModel what = trained("flexi_vit", yaml, image);
      const VitWeights vit = flexi_vit_weights(what.config.section("model"), what);
      CHECK(vit.grid_height * vit.grid_width == vit.positions.size(1));
      write_npz(folder / "v.npz", vit.trained.params);  // its positions are an array now
      const auto plain = build("vit",
                               fmt::format("{{variant: mu, depth: 2, pool_type: tok, patch_size: "
                                           "[{}, {}]}}",
                                           vit.patch_height, vit.patch_width),
                               image, 2);
      load_weights(folder / "v.npz", *plain, {});
      const c10::InferenceMode inference;
      Pass pass;
      const at::Tensor expected = build("flexi_vit", yaml, image)->forward(pixels, pass);
      CHECK(at::allclose(plain->forward(pixels, pass), expected, 1e-5,
                         2e-5 * expected.abs().max().item<double>()));
    }
  }
}

}  // namespace bv::test
