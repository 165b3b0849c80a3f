// The images of a prediction, and what is said about those that do not fit the model.
#include "lib/predict/predict_data.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <limits>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/evals/common/eval_input.h"
#include "lib/model/init.h"
#include "test/predict/small_cnn.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

// A model whose evaluator has this pp_fn. It was trained on images of this shape.
PredictModel trained_with(const std::string& pp, std::vector<int64_t> image) {
  PredictModel model;
  model.config = parse_config("num_classes: 2\nevals: {val: {pp_fn: '" + pp + "'}}\n", "t.yaml");
  model.trained = model.config;
  model.origin = "w/ckpt/step-5";
  model.image = std::move(image);
  return model;
}

// Preprocesses the images. Returns the shape of the last one.
std::vector<int64_t> preprocess(PredictModel model, std::vector<std::string> files,
                                std::optional<std::string> pp = std::nullopt) {
  PredictRequest request;
  request.inputs = std::move(files);
  request.outputs = {"image"};
  request.pp = std::move(pp);
  std::vector<int64_t> shape;
  predict(model, request, [&](const PredictedBatch& batch) {
    shape = batch.arrays.at("image").sizes().slice(1).vec();
  });
  return shape;
}

}  // namespace

TEST_CASE("image files for a model that was trained on arrays need --pp, which the error shows") {
  const TempFolder folder;
  const std::string file = folder.write("a.jpg", flat_jpeg(100));
  const std::string line =
      "w/ckpt/step-5: error: the model was trained on arrays, so its pp decodes no image files; "
      "give --pp ";
  const auto error = [&](const std::string& pp, std::vector<int64_t> image) {
    return error_of([&] { preprocess(trained_with(pp, std::move(image)), {file}); });
  };
  const std::string pp =
      R"(value_range(-1, 1)|onehot(num_classes, key="label", key_result="labels"))";
  const std::string shown =
      R"(decode(1)|resize(4)|value_range(-1, 1)|onehot(2, key="label", key_result="labels"))";
  CHECK(error(pp, {4, 4, 1}) == line + "'" + shown + "'");
  CHECK(preprocess(trained_with(pp, {4, 4, 1}), {file}, shown) == std::vector<int64_t>{4, 4, 1});
  CHECK(error("value_range(-1, 1)", {4, 6, 3}) ==
        line + "\"decode|resize([4, 6])|value_range(-1, 1)\"");
  CHECK(error("", {}) == line + "\"decode|resize(SIZE)\"");
  CHECK(error("decode|resize(4)", {4, 4, 3}) == "");
}

TEST_CASE("an image with more than input.max_pixels is broken") {
  const TempFolder folder;
  const std::string file = folder.write("a.jpg", flat_jpeg(100));  // 8x8
  PredictModel model = trained_with("decode|resize(4)", {4, 4, 3});
  const std::string keys = "{evals: {val: {pp_fn: 'decode|resize(4)'}}, input: {max_pixels: ";
  const auto read = [&] { return preprocess(model, {file}); };
  model.trained = parse_config(keys + "63}}", "t.yaml");
  CHECK_THAT(logged([&] { CHECK(error_of(read, Exit::data) != ""); }),
             Catch::Contains("image of 8 x 8 pixels: input.max_pixels allows 63"));
  model.config = parse_config(keys + "64}}", "c.yaml");
  CHECK(error_of(read) == "");
  model = trained_with("decode|resize(4)", {4, 4, 3});
  CHECK(error_of(read) == "");
}

TEST_CASE("predict refuses to leave out parameters of the model") {
  const TempFolder folder;
  const std::string images = folder / "in.npz", weights = folder / "w.npz";
  write_npz(images, {{"image", at::full({1, 8, 8, 1}, 7, at::kByte)}});
  NamedTensors file = small_cnn();
  file["other/bias"] = at::zeros({1});
  write_npz(weights, file);
  const auto error = [&](const std::string& dont_load) {
    PredictModel model;
    model.config = parse_config(
        "model_name: cnn\nmodel: {widths: [4]}\nnum_classes: 2\nmodel_init: " + weights +
            "\nmodel_load: {dont_load: " + dont_load + "}\n",
        "t.yaml");
    PredictRequest request;
    request.inputs = {images};
    request.pp = "value_range(-1, 1)";
    request.outputs = {"logits"};
    return error_of([&] { predict(model, request, [](const PredictedBatch&) {}); });
  };
  CHECK(error("['other/.*']") == "");
  CHECK(
      error("['other/.*', 'head/.*']") ==
      "t.yaml:5:25: error: model_load.dont_load leaves out head/bias, head/kernel, which would be "
      "untrained; --set model_load=null loads everything");
}

TEST_CASE("a model that is far too large for its weights is refused before it takes memory") {
  const TempFolder folder;
  const std::string images = folder / "in.npz", weights = folder / "w.npz";
  write_npz(images, {{"image", at::full({1, 16, 16, 3}, 7, at::kByte)}});
  write_npz(weights, {{"a", at::zeros({1})}});
  const auto error = [&](const std::string& classes, const std::string& width,
                         const std::string& depth) {
    PredictModel model;
    model.config = parse_config("model_name: vit\nnum_classes: " + classes +
                                    "\nmodel: {width: " + width + ", depth: " + depth +
                                    ", mlp_dim: 64, num_heads: 4, patch_size: [16, 16]}\n",
                                "t.yaml");
    model.weights = model.origin = weights;
    PredictRequest request;
    request.inputs = {images};
    request.pp = "value_range(-1, 1)";
    request.outputs = {"logits"};
    return error_of([&] { predict(model, request, [](const PredictedBatch&) {}); });
  };
  const auto too_large = [&](const std::string& line) {
    return line.starts_with(weights + ": error: its weights take ") &&
           line.ends_with("too little for the model that its metadata or the config describes");
  };
  CHECK(too_large(error("30000000", "64", "1")));
  CHECK(too_large(error("2", "64", "1000000000")));
  CHECK(too_large(error("2", "2305843009213693952", "1")));
  CHECK_THAT(error("2", "64", "1"), Catch::StartsWith(weights + ": error: missing in the file: "));
}

TEST_CASE("an image for which the model's output is NaN has an error and no prediction") {
  const TempFolder folder;
  const std::string images = folder / "in.npz", weights = folder / "w.npz";
  write_npz(weights, small_cnn());
  PredictModel model;
  model.config = parse_config(
      "{model_name: cnn, model: {widths: [4]}, num_classes: 2, model_init: '" + weights + "'}",
      "t.yaml");
  PredictRequest request;
  request.inputs = {images};
  request.pp = "";
  request.outputs = {"image", "logits"};
  request.labels = true;
  std::vector<PredictedBatch> batches;
  PredictedCounts counts;
  const auto run = [&](const at::Tensor& pixels) {
    batches.clear();
    write_npz(images, {{"image", pixels}, {"label", at::zeros({3}, at::kLong)}});
    counts = predict(model, request, [&](const PredictedBatch& each) { batches.push_back(each); });
  };
  at::Tensor pixels = at::zeros({3, 8, 8, 1});
  pixels[1][2][2][0] = std::numeric_limits<float>::quiet_NaN();
  const std::string why = "the model's output is NaN or infinite";
  CHECK_THAT(logged([&] { run(pixels); }), Catch::Contains("skipped row 1: " + why));
  CHECK(counts.examples == 3);
  CHECK(counts.failed == 1);
  CHECK(counts.not_finite == 1);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].arrays.at("logits").size(0) == 2);
  CHECK(batches[0].arrays.at("image").size(0) == 2);
  CHECK(batches[0].rows[0].label);
  CHECK(batches[0].rows[1].error == why);
  CHECK_FALSE(batches[0].rows[1].label);
  CHECK(error_of(
            [&] {
              run(at::full({3, 8, 8, 1}, pixels[1][2][2][0].item()));
            },
            Exit::diverged) ==
        "bvtrain predict: error: " + why + " for each image that could be read");
}

TEST_CASE("predict refuses images with as many patches or values in other places") {
  const TempFolder folder;
  const std::string wide = folder / "wide.npz";
  write_npz(wide, {{"image", at::full({3, 4, 16, 1}, 7, at::kByte)}});
  // Returns the error of a model that was trained on 8x8 images, or "". Its weights are in a
  // checkpoint or, with `in_file`, in a weights file.
  const auto error = [&](const std::string& name, const std::string& keys, bool in_file = false) {
    PredictModel model;
    model.config = parse_config(fmt::format("model_name: {}\nmodel: {}\nnum_classes: 2\nevals: "
                                            "{{val: {{pp_fn: 'value_range(-1, 1)'}}}}\n",
                                            name, keys),
                                "t.yaml");
    model.trained = model.config;
    model.image = {8, 8, 1};
    const auto trained =
        Model::Registry::make(name, model.config.section("model"), Place(), ModelEnv{2, 8, 8, 1});
    init_parameters(*trained, 1, std::nullopt);
    NamedTensors file;
    model.checkpoint.emplace();
    for (const auto& [path, value] : named_parameters(*trained)) {
      model.checkpoint->tensors["params/" + path] = value.detach();
      file[path] = value.detach().contiguous();
    }
    for (const auto& [path, value] : named_buffers(*trained))
      model.checkpoint->tensors["buffers/" + path] = value;
    if (in_file) {
      model.checkpoint.reset();
      model.weights = folder / "w.npz";
      write_npz(model.weights, file);
    }
    PredictRequest request;
    request.inputs = {wide};
    request.outputs = {"logits"};
    return error_of([&] { predict(model, request, [](const PredictedBatch&) {}); });
  };
  const std::string refused =
      "--pp: error: gives images of (4, 16, 1), but the model was trained on (8, 8, 1) and cannot "
      "take them";
  const std::string mixer =
      "{patch_size: [2, 2], num_blocks: 1, hidden_dim: 8, tokens_mlp_dim: 8, channels_mlp_dim: 8}";
  for (const bool in_file : {false, true}) {
    INFO("weights file: " << in_file);
    CHECK(error("cnn", "{widths: [4], dense: 8}", in_file) == refused);
    CHECK(error("mlp_mixer", mixer, in_file) == refused);
    // These positions are computed for the images.
    CHECK(error("vit", "{variant: mu/2, depth: 1, posemb: sincos2d}", in_file) == "");
  }
  // Learned positions are resampled if they come from a file.
  CHECK(error("vit", "{variant: mu/2, depth: 1}") == refused);
  CHECK(error("vit", "{variant: mu/2, depth: 1}", /*in_file=*/true) == "");
  CHECK(error("bit", "{width: 0.5, depth: [1, 1]}") == "");  // it has no positions
}

TEST_CASE(
    "predict refuses images with another number of channels, and names what preprocesses them") {
  const std::string pp = "value_range(-1, 1)|reshape([4, 4, 4])";
  PredictModel model;
  model.config = parse_config(
      "model_name: cnn\n"
      "model: {widths: [4]}\n"
      "num_classes: 10\n"
      "evals:\n"
      "  val:\n"
      "    data: {name: digits, split: test}\n"
      "    pp_fn: '" +
          pp + "'\n",
      "t.yaml");
  model.checkpoint.emplace();
  model.image = {8, 8, 1};
  PredictRequest request;
  request.eval = "val";
  request.first = 1;
  request.outputs = {"logits"};
  const auto error = [&] {
    return error_of([&] { predict(model, request, [](const PredictedBatch&) {}); });
  };
  const std::string shapes =
      ": error: gives images of (4, 4, 4), but the model was trained on (8, 8, 1) and cannot take "
      "them";
  CHECK(error() == "t.yaml:7:12" + shapes);
  request.pp = pp;
  CHECK(error() == "--pp" + shapes);
}

TEST_CASE("predict tells of other examples than in training, but not if `train` counts too") {
  PredictModel model;
  model.config = parse_config(
      "num_classes: 10\n"
      "evals:\n"
      "  val: {data: {name: digits, split: test}, pp_fn: 'value_range(-1, 1)'}\n"
      "  knn: {type: knn, data: {name: digits, split: test}, pp_fn: 'value_range(-1, 1)',\n"
      "        train: {name: digits, split: train}}\n",
      "t.yaml");
  model.checkpoint.emplace();
  model.checkpoint->meta["config"] = model.config.json();
  model.checkpoint->meta["data"] = {
      {"input", "1a"}, {"examples", 1437}, {"evals", {{"val", 350}, {"knn", 1797}}}};
  const auto log_of = [&](const std::string& eval) {
    PredictRequest request;
    request.eval = eval;
    request.first = 1;
    request.outputs = {"image"};
    return logged([&] { predict(model, request, [](const PredictedBatch&) {}); });
  };
  CHECK_THAT(log_of("val"), Catch::Contains("evals.val.data: other examples than in training (350 "
                                            "examples; now 360 examples)"));
  CHECK_THAT(log_of("knn"), !Catch::Contains("other examples"));
}

TEST_CASE("--eval compares no class names that the evaluator's pp_fn does not use") {
  const TempFolder folder;
  folder.write("1.jpg", flat_jpeg(90));
  const std::string kinds = folder.write("kinds.txt", "x\nyy\n");
  const std::string file =
      folder.write("val.csv", "image,label,kind\n1.jpg,ship,yy\n1.jpg,cat,x\n");
  PredictModel model;
  model.config = parse_config(
      "num_classes: 2\n"
      "evals:\n"
      "  val:\n"
      "    data: {name: csv, split: all, fname: " +
          file +
          "}\n"
          "    pp_fn: decode|value_range(-1, 1)|lookup('" +
          kinds +
          "', inkey='kind', outkey='k')|onehot(2, key='k', key_result='labels')|"
          "keep('image', 'labels')\n",
      "t.yaml");
  model.class_names = {"cat", "dog"};
  PredictRequest request;
  request.eval = "val";
  request.outputs = {"image"};
  request.labels = true;
  std::vector<int64_t> found;
  predict(model, request, [&](const PredictedBatch& batch) {
    for (const PredictedRow& row : batch.rows)
      found.insert(found.end(), row.label->classes.begin(), row.label->classes.end());
  });
  CHECK(found == std::vector<int64_t>{1, 0});
}

TEST_CASE("--eval draws random ops with the seed of the run, as its evaluator does") {
  PredictModel model;
  model.config = parse_config(
      "num_classes: 10\n"
      "seed: 7\n"
      "evals: {val: {data: {name: digits, split: test}, pp_fn: 'random_crop(4)|value_range(-1, "
      "1)'}}\n",
      "t.yaml");
  std::vector<at::Tensor> images;
  PredictRequest request;
  request.eval = "val";
  request.outputs = {"image"};
  predict(model, request,
          [&](const PredictedBatch& batch) { images.push_back(batch.arrays.at("image").clone()); });
  const auto of_evaluator = [&](uint64_t seed) {
    EvalEnv env;
    env.name = "val";
    env.batch_size = 72;  // of 360 examples
    env.seed = seed;
    EvalInput input(model.config.section("evals").section("val"), env);
    std::vector<at::Tensor> all;
    input.for_each({}, [&](const Batch& batch) { all.push_back(batch.at("image").clone()); });
    return at::cat(all);
  };
  CHECK(at::cat(images).equal(of_evaluator(7)));
  CHECK_FALSE(at::cat(images).equal(of_evaluator(0)));
}

TEST_CASE("images of different sizes: the error names --pp and the ops") {
  const TempFolder folder;
  const std::vector<std::string> files = {
      folder.write("a.jpg", flat_jpeg(100)),
      folder.write("b.png", png_of(at::full({6, 9, 3}, 1, at::kByte)))};
  const std::string error = error_of([&] {
    preprocess(trained_with("decode|value_range(-1, 1)", {8, 8, 3}), files);
  });
  CHECK_THAT(error, Catch::EndsWith("has shape (6, 9, 3), but (8, 8, 3) in other examples: add an "
                                    "op such as resize or random_crop to pp that makes all shapes "
                                    "equal; --pp replaces the pp, which is "
                                    "'decode|value_range(-1, 1)'"));
}

}  // namespace bv::test
