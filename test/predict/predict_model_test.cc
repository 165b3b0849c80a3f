// What predict reads from a weights file, with and without a card and a config.
#include "lib/predict/predict_model.h"

#include <ATen/ops/ones.h>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/model_card.h"
#include "lib/export/trained_model.h"
#include "lib/model/init.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/logged.h"
#include "test/support/model.h"

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

TEST_CASE("a folder of weights under another name is not called a run") {
  const WeightsFile f;
  f.put(to_metadata(example_card()));
  CHECK(error_of([&] {
          open_predict_model(
              {.workdir = "", .weights = f.folder.path(), .config = "", .overrides = {}});
        }) ==
        "--weights " + f.folder.path() +
            ": error: is a folder without a model.safetensors; give the file itself: " + f.file);
}

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

TEST_CASE("a card knows the input.max_pixels of its run") {
  const auto limit = [](const Config& config) {
    return config.section("input").get<int64_t>("max_pixels");
  };
  Restored checkpoint;
  checkpoint.meta = {
      {"config", "{model_name: cnn, num_classes: 2, input: {max_pixels: 63, batch_size: 8}}"}};
  ModelCard card = load_trained_model(checkpoint, /*ema=*/false).card;
  CHECK(card.max_pixels == 63);
  card.version = "1.2";
  const WeightsFile f;
  f.put(to_metadata(card));
  const PredictModel model = f.open();
  CHECK(limit(model.config) == 63);
  CHECK(limit(*model.trained) == 63);
  CHECK(limit(f.open("", {{"input.max_pixels", "64", "--set"}}).config) == 64);
}

TEST_CASE("a card knows whether its classes are independent") {
  const auto multilabel = [](const std::string& task) {
    Restored checkpoint;
    checkpoint.meta = {{"config", "{model_name: cnn, num_classes: 2, " + task + "}"}};
    ModelCard card = load_trained_model(checkpoint, /*ema=*/false).card;
    card.version = "1.2";
    const WeightsFile f;
    f.put(to_metadata(card));
    const PredictModel model = f.open();
    return model.config.section("task_kw").get<bool>("multilabel", false);
  };
  CHECK(multilabel("loss: sigmoid_xent, task_kw: {multilabel: true}"));
  CHECK_FALSE(multilabel("loss: sigmoid_xent"));
  CHECK_FALSE(multilabel("task: regress, task_kw: {normalize_targets: false}"));
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
      "task_kw.multilabel, loss, precision, input.max_pixels";
  for (const char* key : {"lr", "lrr", "modle.width", "ema", "input.batch_size", "seed",
                          "evals.exported.pp_fn", "task_kw.class_weights", "model_load.dont_load"})
    CHECK(set(key, card) == line);
  for (const char* key : {"model_name", "model.widths", "num_classes", "loss", "input.max_pixels"})
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
  // The config in a checkpoint may be anything.
  const std::string workdir = f.folder / "w";
  int64_t step = 0;
  for (const char* stored : {"[", "[7]", R"({"num_classes": 1e300})", R"({"num_classes": -1})"}) {
    INFO(stored);
    Snapshot snapshot;
    snapshot.step = ++step;
    snapshot.tensors["params/a"] = at::ones({2});
    snapshot.meta = {{"config", stored}};
    Checkpointer checkpointer{Workdir(workdir)};
    checkpointer.save(std::move(snapshot), false);
    checkpointer.wait();
    CHECK(
        error_of([&] {
          load_trained_model(
              parse_config("num_classes: auto\nmodel_name: cnn\nmodel_init: " + workdir, "m.yaml"),
              {});
        }) == "m.yaml:1:14: error: num_classes: auto, but " + workdir +
                  " does not say how many classes its model has: write the number");
  }
}

TEST_CASE("predict takes class names and image values from model_init") {
  const WeightsFile f;
  ModelCard card = example_card();
  card.image = {8, 9, 3};
  card.image_values = {-1, 1};
  f.put(to_metadata(card));
  const std::string config =
      f.folder.write("c.yaml", "model_name: cnn\nnum_classes: 2\nmodel_init: " + f.file + "\n");
  const auto open = [&](const std::string& dont_load) {
    return open_predict_model({"", "", config, {{"model_load.dont_load", dont_load, "--set"}}});
  };
  const PredictModel model = open("['.*_norm']");
  CHECK(model.class_names == card.class_names);
  CHECK(model.image == card.image);
  CHECK(model.image_values->least == -1);
  CHECK(model.image_values->greatest == 1);
  CHECK(model.precision == "bf16");
  Metadata bad = to_metadata(card);
  bad.erase("bvtrain.loss");
  f.put(bad);
  CHECK_THAT(logged([&] { CHECK(open("[]").class_names.empty()); }),
             Catch::Contains(f.file + ": its metadata has no 'bvtrain.loss'"));
}

TEST_CASE("--weights refuses a part of a checkpoint") {
  const TempFolder folder;
  folder.make("w");
  const std::string part = folder / "w:ema";
  CHECK(error_of([&] {
          open_predict_model({"", part, "", {}});
        }) == "--weights " + part +
                  ": error: is a part of a checkpoint; give --workdir, with --ema for "
                  "the averaged weights, or --config C --set model_init=" +
                  part);
}

TEST_CASE("averaged weights fit the same models as the other weights") {
  const ModelEnv env = {2, 16, 16, 3};
  const auto deep = make_model("vit", "{variant: mu/8, depth: 2}", env);
  const auto shallow = make_model("vit", "{variant: mu/8, depth: 1}", env);
  Restored checkpoint;
  checkpoint.folder = "step-5";
  for (Model* model : {deep.get(), shallow.get()}) init_parameters(*model, 1, std::nullopt);
  for (const auto& [path, value] : named_parameters(*deep)) {
    checkpoint.tensors["params/" + path] = value.detach().clone();
    // A frozen parameter has no average.
    if (path != "pos_embedding") checkpoint.tensors["ema/" + path] = value.detach().add(1);
  }
  copy_weights(checkpoint, /*ema=*/true, *deep);
  for (const auto& [path, value] : named_parameters(*deep)) {
    const bool average = path != "pos_embedding";
    CHECK(value.equal(checkpoint.tensors.at((average ? "ema/" : "params/") + path)));
  }
  for (const bool ema : {false, true}) {
    CHECK_THAT(error_of([&] { copy_weights(checkpoint, ema, *shallow); }),
               Catch::StartsWith("step-5: error: does not fit this config: unexpected ") &&
                   Catch::Contains("encoderblock_1/"));
  }
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
