// What predict reads from a weights file, with and without a card and a config.
#include "lib/predict/predict_model.h"

#include <ATen/ops/ones.h>

#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/model_card.h"
#include "lib/export/trained_model.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {
namespace {

ModelCard example_card() {
  ModelCard card;
  card.version = "1.2";
  card.model_name = "cnn";
  card.model = R"({"widths":[4]})";
  card.num_classes = 2;
  card.class_names = {"a", "b"};
  card.pp = "value_range(-1, 1)";
  card.precision = "bf16";
  card.loss = "softmax_xent";
  return card;
}

struct WeightsFile {
  MemoryFolder folder;
  const std::string file = folder / "f.safetensors";
  void put(const Metadata& metadata) const {
    write_safetensors(file, {{"params/a", at::ones({2})}}, metadata);
  }
  PredictModel open(const std::string& config = "", std::vector<Override> overrides = {}) const {
    return open_predict_model(
        {.workdir = "", .weights = file, .config = config, .overrides = std::move(overrides)});
  }
};

}  // namespace

TEST_CASE("a card is the config of its model") {
  const WeightsFile f;
  f.put(to_metadata(example_card()));
  const PredictModel model = f.open();
  CHECK(model.config.get<std::string>("model_name") == "cnn");
  CHECK(model.config.section("model").get<std::vector<int64_t>>("widths") ==
        std::vector<int64_t>{4});
  CHECK(model.config.get<int64_t>("num_classes") == 2);
  CHECK(model.class_names == example_card().class_names);
  const auto precision = [](const PredictModel& each) {
    return precision_as_trained(each.config, each.precision, c10::kCPU);
  };
  CHECK(precision(model) == Precision::bf16);
  CHECK(precision(f.open("", {{"precision", "float32", "--set"}})) == Precision::float32);
  // `auto` is the precision of the training.
  CHECK(precision(f.open("", {{"precision", "auto", "--set"}})) == Precision::bf16);
}

TEST_CASE("a key that predict does not read is refused") {
  const WeightsFile f;
  f.put(to_metadata(example_card()));
  const auto set = [&](const std::string& key, const PredictFrom& from) {
    PredictFrom with = from;
    with.overrides = {{key, "1", "--set"}};
    return error_of([&] { open_predict_model(with); });
  };
  const PredictFrom card = {"", f.file, "", {}};
  const std::string line =
      "--set: error: has no effect on predict; it uses model_name, model, num_classes, task, "
      "task_kw.multilabel, loss, precision";
  for (const char* key : {"lr", "lrr", "modle.width", "ema", "input.batch_size", "seed",
                          "evals.exported.pp_fn", "task_kw.class_weights", "model_load.dont_load"})
    CHECK(set(key, card) == line);
  for (const char* key : {"model_name", "model.widths", "num_classes", "loss"})
    CHECK(set(key, card) == "");
  const std::string config = f.folder.write("c.yaml", "model_name: cnn\nnum_classes: 2\n");
  CHECK(set("lr", {"", "", config, {}}) == line + ", model_init, model_load, evals");
  CHECK(set("model_load.dont_load", {"", "", config, {}}) == "");
  CHECK(set("evals.val.pp_fn", {"", "", config, {}}) == "");
  const PredictFrom eval = {"", f.file, config, {}, "val"};
  CHECK(set("lr", eval) == line + ", evals.val, seed");
  CHECK(set("evals.val.data.split", eval) == "");
  CHECK(set("evals.val2.pp_fn", eval) == line + ", evals.val, seed");
}

TEST_CASE("a config replaces the model of a card, and mends a bad card") {
  const WeightsFile f;
  Metadata bad = to_metadata(example_card());
  bad.erase("bvtrain.loss");
  f.put(bad);
  CHECK(error_of([&] {
          f.open();
        }).starts_with(f.file + ": error: its metadata has no 'bvtrain.loss'; "));
  const std::string config = f.folder.write("c.yaml", "model_name: vit\nnum_classes: 2\n");
  CHECK(f.open(config).class_names.empty());
  f.put(to_metadata(example_card()));
  const PredictModel model = f.open(config);
  CHECK(model.config.get<std::string>("model_name") == "vit");
  CHECK(model.class_names == example_card().class_names);
  CHECK(precision_as_trained(model.config, model.precision, c10::kCPU) == Precision::bf16);
}

TEST_CASE("num_classes: auto is that of the weights") {
  const WeightsFile f;
  f.put(to_metadata(example_card()));
  const std::string yaml = "model_name: cnn\nnum_classes: auto\n";
  const std::string config = f.folder.write("c.yaml", yaml);
  CHECK(f.open(config).config.get<int64_t>("num_classes") == 2);
  const std::string with_file = f.folder.write("m.yaml", yaml + "model_init: " + f.file + "\n");
  const PredictModel model = open_predict_model({"", "", with_file, {}});
  CHECK(model.config.get<int64_t>("num_classes") == 2);
  CHECK(error_of([&] {
          open_predict_model({"", "", config, {}});
        }) == config +
                  ":2:14: error: num_classes: auto, but there are no weights that say the number: "
                  "give --workdir, --weights FILE, or --set model_init=FILE");
  f.put({});
  const std::string unknown = ":2:14: error: num_classes: auto, but " + f.file +
                              " does not say how many classes its model has: write the number";
  CHECK(error_of([&] { f.open(config); }) == config + unknown);
  CHECK(error_of([&] { load_trained_model(parse_config(read_text(with_file), "m.yaml"), {}); }) ==
        "m.yaml" + unknown);
}

TEST_CASE("a flexi_vit that was written as timm's plain vit is refused") {
  const WeightsFile f;
  for (const std::string name : {"flexi_vit", "proj.flexi.vit"}) {
    ModelCard card = example_card();
    card.model_name = name;
    Metadata metadata = to_metadata(card);
    f.put(metadata);
    CHECK(f.open().config.get<std::string>("model_name") == name);
    metadata["timm_class"] = "VisionTransformer";
    f.put(metadata);
    CHECK(error_of([&] { f.open(); }) ==
          f.file +
              ": error: holds a flexi_vit as timm's plain vit; give the file of `bvtrain export` "
              "in the format safetensors or npz");
  }
}

}  // namespace bv::test
