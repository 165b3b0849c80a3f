// The image size of an exported model: which sizes its weights fit, and what its file records.
#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "lib/ckpt/weights_file.h"
#include "lib/config/load_config.h"
#include "lib/export/export.h"
#include "lib/export/trained_model.h"
#include "lib/util/file.h"
#include "test/export/small_models.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

// Returns a config whose model starts from the weights in `file`.
Config config_of(const std::string& name, const std::string& yaml, const std::string& file) {
  return parse_config(fmt::format("{{model_name: {}, model: {}, num_classes: 7, model_init: '{}'}}",
                                  name, yaml, file),
                      "c.yaml");
}

}  // namespace

TEST_CASE("export: weights of bvtrain record the size of their images") {
  const MemoryFolder folder;
  const TrainedModel what = described("vit", "{variant: mu/8}", {16, 64, 3});
  export_weights(what, "npz", folder / "w.npz");
  const Config config = config_of("vit", "{variant: mu/8}", folder / "w.npz");
  const TrainedModel again = load_trained_model(config, std::nullopt);
  CHECK(again.image.height == 16);
  CHECK(again.image.width == 64);
  CHECK(again.params.at("pos_embedding").equal(what.params.at("pos_embedding")));
}

TEST_CASE("export: images whose grid of patches a model's weights do not fit are refused") {
  const auto line = [](const TrainedModel& what, const ImageSize& size) {
    TrainedModel changed = what;
    const std::string text = error_of([&] { set_image_size(changed, size); });
    if (text.empty()) CHECK(changed.image.width == size.width);
    return text;
  };
  const ImageSize square = {32, 32, 3};
  const TrainedModel vit = trained("vit", "{variant: mu/8}", {16, 64, 3});
  CHECK(
      line(vit, square) ==
      "t: error: the weights are tied to positions in 16x64 images and do not fit 32x32 images; to "
      "resample the position embeddings, export with --config C --set model_init=WORKDIR instead "
      "of --workdir");
  CHECK(line(vit, {16, 72, 3}) != "");
  CHECK(line(vit, {17, 66, 3}) == "");
  TrainedModel unknown = vit;
  unknown.image = {};
  CHECK(line(unknown, square) == "");
  CHECK(line(trained("vit", "{variant: mu/8, posemb: sincos2d}", {16, 64, 3}), square) == "");
  CHECK(line(trained("flexi_vit", small("flexi_vit"), {16, 64, 3}), square) == "");

  const TrainedModel mixer = trained("mlp_mixer", small("mlp_mixer"), {16, 64, 3});
  CHECK(line(mixer, square) ==
        "t: error: the weights are tied to positions in 16x64 images and do not fit 32x32 images; "
        "leave out --image-size");
  CHECK(line(mixer, {9, 57, 3}) == "");
}

TEST_CASE("export: another image size keeps the channels, and must fit the weights") {
  TrainedModel grey = trained("cnn", small("cnn"), {8, 8, 1});
  set_image_size(grey, parse_image_size("9,9"));  // pooled to the same size
  CHECK(grey.image.height == 9);
  CHECK(grey.image.channels == 1);
  const auto line = [&](const std::string& size) {
    return error_of([&] { set_image_size(grey, parse_image_size(size)); });
  };
  CHECK(line("8,8,3") ==
        "t: error: the weights do not fit images of 8x8x3: Conv_0/kernel is (3, 3, 1, 8), but "
        "would be (3, 3, 3, 8)");
  CHECK(line("16,16,1") ==
        "t: error: the weights are tied to positions in 9x9 images and do not fit 16x16 images; "
        "leave "
        "out --image-size");
  CHECK(
      line("4,16,1") ==
      "t: error: the weights are tied to positions in 9x9 images and do not fit 4x16 images; leave "
      "out --image-size");
  CHECK(grey.image.height == 9);

  const MemoryFolder folder;
  const TrainedModel what = described("cnn", small("cnn"), {8, 8, 1});
  export_weights(what, "npz", folder / "w.npz");
  const Config config = config_of("cnn", small("cnn"), folder / "w.npz");
  CHECK(load_trained_model(config, parse_image_size("8")).image.channels == 1);
}

TEST_CASE("export: weights that fit other images too record those of the training") {
  const MemoryFolder folder;
  TrainedModel what = described("cnn", small("cnn"), {8, 8, 1});
  what.card.pp = "resize(8)";
  export_weights(what, "npz", folder / "w.npz");
  set_image_size(what, {9, 9, 1});
  const Config config = config_of("cnn", small("cnn"), folder / "w.npz");
  TrainedModel by_config = load_trained_model(config, ImageSize{9, 9, 1});
  by_config.card.pp = what.card.pp;
  for (const TrainedModel& each : {what, by_config}) {
    CHECK_THAT(logged([&] { export_weights(each, "npz", folder / "o.npz"); }),
               Catch::Contains("a file in the format npz records the image size of the training, "
                               "8x8x1, and not 9x9x1: the same weights fit both"));
    CHECK(read_weights_metadata(folder / "o.npz").at("bvtrain.image") == "[8,8,1]");
    CHECK_THAT(
        logged([&] { export_weights(each, "onnx", folder / "o.onnx"); }),
        Catch::Contains("the exported model takes images of 9x9x1, but was trained on "
                        "8x8x1: the preprocessing in its metadata, bvtrain.pp, is unchanged"));
    CHECK(read_file(folder / "o.onnx").find("[9,9,1]") != std::string::npos);
  }
}

TEST_CASE("export: the preprocessing may be wrong for images to which weights were resampled") {
  const MemoryFolder folder;
  const TrainedModel what = described("vit", small("vit"));
  export_weights(what, "npz", folder / "w.npz");
  for (const int64_t side : {32, 64}) {
    const Config config = config_of("vit", small("vit"), folder / "w.npz");
    TrainedModel resampled = load_trained_model(config, ImageSize{side, side, 3});
    resampled.card.pp = "resize(32)";
    for (const std::string format : {"npz", "onnx"}) {
      INFO(side << " " << format);
      const std::string log =
          logged([&] { export_weights(resampled, format, folder / "o." + format); });
      const bool warned =
          log.find(
              "the exported model takes images of 64x64x3, but was trained on "
              "32x32x3: the preprocessing in its metadata, bvtrain.pp, is "
              "unchanged and may give images of the wrong size") != std::string::npos;
      CHECK(warned == (side == 64));
    }
  }
  CHECK(read_weights_metadata(folder / "o.npz").at("bvtrain.image") == "[64,64,3]");
}

}  // namespace bv::test
