// Warnings about images, preprocessing, evaluators and keys without effect, which a run gives at
// its start.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "lib/ckpt/formats/npz.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"
#include "test/support/text.h"
#include "test/train/recipe_warnings.h"

namespace bv::test {

TEST_CASE("an evaluator with random ops gives a warning that names them") {
  const auto lines = [](const std::string& pp_fn) {
    return warnings_of(kDigits, "flip_lr|value_range(-1, 1)", "{name: digits, split: test}", pp_fn);
  };
  CHECK(lines("resize(8)|value_range(-1, 1)") == Lines{});
  CHECK(lines("random_crop(8)|flip_lr|value_range(-1, 1)") ==
        Lines{"x.yaml:17:12: warning: evals.val.pp_fn: this evaluator measures randomly augmented "
              "examples, because of random_crop, flip_lr; remove the random ops, for example use "
              "resize_small and central_crop instead of a random crop"});
}

TEST_CASE("a random crop of images of its size gives a warning") {
  const auto lines = [](const std::string& pp) {
    return warnings_of(kDigits, pp + "|value_range(-1, 1)");
  };
  CHECK(lines("random_crop(8)") ==
        Lines{"x.yaml:7:7: warning: input.pp: random_crop has no effect on the first 16 images, "
              "which have its size: put pad_to_shape or a resize to a larger size before it"});
  CHECK(lines("random_crop([8, 7])") == Lines{});
  CHECK(lines("pad_to_shape([10, 10, 1], where=\"both\")|random_crop(8)") == Lines{});
  // One larger image is enough.
  const TempFolder dir;
  for (int i = 0; i < 6; ++i) {
    const at::Tensor image = at::full({i == 3 ? 10 : 8, 8, 3}, 40 * i, at::kByte);
    dir.write(fmt::format("photos/{}/{}.png", i % 2 == 0 ? "a" : "b", i), png_of(image));
  }
  const std::string folder = "{name: image_folder, data_dir: " + dir / "photos" + "}";
  CHECK(warnings_of(folder, "decode|random_crop(8)|value_range(-1, 1)") == Lines{});
}

TEST_CASE("a pattern of sharding_strategy that matches nothing gives a warning") {
  CHECK(
      warnings_of(config_text(kDigits, "value_range(-1, 1)") +
                  "sharding_strategy: [['head/.*', replicate], ['params/head/.*', replicate]]\n") ==
      Lines{"x.yaml:13:20: warning: sharding_strategy: the pattern 'head/.*' matches nothing: "
            "names begin with params/ or opt/, such as params/Dense_0/kernel"});
}

TEST_CASE("init_head_bias gives a warning if model_init sets the biases") {
  const auto lines = [](const std::string& keys) {
    return warnings_of(config_text(kDigits, "value_range(-1, 1)") + "init_head_bias: -5\n" + keys);
  };
  CHECK(lines("") == Lines{});
  CHECK(lines("model_init: a.npz\n") ==
        Lines{"x.yaml:13:17: warning: init_head_bias: has no effect, because `model_init` sets the "
              "biases of the last layer"});
  CHECK(lines("model_init: a.npz\nmodel_load: {dont_load: ['head/.*']}\n") == Lines{});
}

TEST_CASE("frozen batch norms without trained statistics give a warning") {
  const auto lines = [](const std::string& keys) {
    return warnings_of(
        "num_classes: 10\ntotal_steps: 1\nlog_training_steps: 1\ninput:\n  batch_size: 2\n"
        "  data: {name: digits}\n  pp: value_range(-1, 1)|onehot(10, key=\"label\", "
        "key_result=\"labels\")|keep(\"image\", \"labels\")\nmodel_name: resnet_cifar\n"
        "model: {width: 16, blocks: [0]}\nloss: softmax_xent\noptax_name: sgd\nlr: 0.1\n" +
        keys);
  };
  const std::string frozen = "schedule: [['head/.*', {}], ['.*', null]]\n";
  CHECK(lines("") == Lines{});
  CHECK(lines(frozen) ==
        Lines{"x.yaml:13:11: warning: schedule: freezes batch norms whose running statistics are "
              "still 0 and 1, so they do not normalize; model_init loads trained ones"});
  CHECK(lines(frozen + "model_init: a.npz\n") == Lines{});
}

TEST_CASE("a run that samples and weights the classes gives a warning") {
  const TempFolder dir;
  const at::Tensor image = at::linspace(0, 255, 768).to(at::kByte).view({4, 8, 8, 3});
  write_npz(dir / "t.npz",
            {{"image", image}, {"label", at::arange(4).remainder(2)}, {"w", at::ones({4})}});
  const auto lines = [&](const std::string& sample, const std::string& task_kw) {
    const std::string data = "{name: npz, fname: " + dir / "t.npz" + "}\n  sample: " + sample;
    return warnings_of(config_text(data, "value_range(-1, 1)") + "task_kw: {" + task_kw + "}\n");
  };
  const std::string weights = "class_weights: balanced", start = "x.yaml:7:11: warning: input.";
  CHECK(lines("{weights: w}", weights) ==
        Lines{start +
              "sample: draws examples by weight, and task_kw.class_weights weights their classes: "
              "if both balance the classes, rare ones count too much"});
  CHECK(lines("balanced", weights) ==
        Lines{start + "sample: balances the classes, and so does task_kw.class_weights"});
  CHECK(lines("{weights: w}", "") == Lines{});
  CHECK(lines("balanced", "") == Lines{});
  CHECK(lines("uniform", weights) == Lines{});
}

TEST_CASE("images that are only darker than those of the training give no warning") {
  const TempFolder dir;
  for (const char* name : {"a", "b"}) {
    dir.write(fmt::format("bright/{}/1.jpg", name), flat_jpeg(200));
    dir.write(fmt::format("bright/{}/2.jpg", name), flat_jpeg(255));
    dir.write(fmt::format("dark/{}/1.jpg", name), flat_jpeg(10));
    dir.write(fmt::format("dark/{}/2.jpg", name), flat_jpeg(20));
  }
  const auto lines = [&](const std::string& pp_fn) {
    const auto folder = [&](const std::string& name) {
      return "{name: image_folder, data_dir: " + dir / name + "}";
    };
    return warnings_of(folder("bright"), "decode|flip_lr|value_range(-1, 1)", folder("dark"),
                       pp_fn);
  };
  CHECK(lines("decode|value_range(-1, 1)|resize(8)") == Lines{});
  const Lines other = lines("decode|resize(8)|value_range(0, 1)");
  REQUIRE(other.size() == 1);
  CHECK(contains(other[0], "scale the values of both in the same way"));

  // The same ops do not give arrays of another scale the same values.
  const at::Tensor label = at::arange(4), image = at::rand({4, 8, 8, 3});
  write_npz(dir / "bytes.npz", {{"image", image.mul(255).to(at::kByte)}, {"label", label}});
  write_npz(dir / "dark.npz", {{"image", image.mul(60).to(at::kByte)}, {"label", label}});
  write_npz(dir / "floats.npz", {{"image", image}, {"label", label}});
  const auto arrays = [&](const std::string& name) {
    const auto data = [&](const std::string& file) {
      return "{name: npz, fname: " + (dir / (file + ".npz")) + "}";
    };
    return warnings_of(data("bytes"), "value_range(-1, 1)", data(name), "value_range(-1, 1)");
  };
  CHECK(arrays("dark") == Lines{});
  REQUIRE(arrays("floats").size() == 1);
  CHECK(contains(arrays("floats")[0], "scale the values of both in the same way"));
}

TEST_CASE("what decode ignores of a few image files gives one warning for each data set") {
  const TempFolder dir;
  const std::string turned = jpeg_with_exif(flat_jpeg(100), exif_data(6));
  const std::string deep = encode_png(std::vector<uint8_t>(2 * 64), 8, 8, SPNG_COLOR_TYPE_GRAYSCALE,
                                      /*depth=*/16);
  std::string photos = "image,label\n", scans = photos;
  for (int i = 0; i < 20; ++i) {
    const std::string name = fmt::format("{}/{}", i % 2 == 0 ? "a" : "b", i);
    dir.write("photos/" + name + ".jpg", i == 0 ? flat_jpeg(200) : turned);
    dir.write("scans/" + name + ".png", deep);
    photos += fmt::format("photos/{}.jpg,{}\n", name, name[0]);
    scans += fmt::format("scans/{}.png,{}\n", name, name[0]);
  }
  const auto csv = [&](const std::string& name, const std::string& list) {
    return "{name: csv, fname: " + dir.write(name, list) + "}";
  };
  const std::string photo_list = csv("photos.csv", photos), scan_list = csv("scans.csv", scans);
  const std::string same_photos = csv("same.csv", photos);
  const std::string pp = "decode|value_range(-1, 1)";

  const Lines both = warnings_of(photo_list, pp, same_photos, pp);
  REQUIRE(both.size() == 2);
  CHECK(contains(both[0], "warning: input.data: the EXIF orientation of 1"));
  CHECK(contains(both[0],
                 " of 16 images in the sample is ignored; decode(exif=True) turns them upright"));
  CHECK(contains(both[1], "warning: evals.val.data: the EXIF orientation of 1"));
  CHECK(warnings_of(photo_list, "decode(exif=True)|value_range(-1, 1)") == Lines{});

  // An image folder has looked at all images.
  const std::string folder = "{name: image_folder, data_dir: " + dir / "photos" + "}";
  const Lines counted = warnings_of(folder, pp);
  REQUIRE(counted.size() == 1);
  CHECK(contains(counted[0], "train: the EXIF orientation of 19 of 20 images is ignored"));

  for (const std::string& data : {scan_list, replace_all(folder, "photos", "scans")}) {
    const Lines lines = warnings_of(data, "decode(exif=True)|value_range(-1, 1)");
    REQUIRE(lines.size() == 1);
    CHECK(contains(lines[0],
                   "16 of 16 images in the sample are PNG files with 16 bits per channel; decoding "
                   "keeps only the upper 8 (value / 256)"));
  }
}

TEST_CASE("arrays that the pp scales wrongly, or that have the channels first, give a warning") {
  const TempFolder dir;
  const at::Tensor label = at::arange(4).remainder(2);
  const at::Tensor ones = at::linspace(0, 1, 768).view({4, 8, 8, 3});
  const auto lines = [&](const at::Tensor& image, const std::string& pp) {
    write_npz(dir / "t.npz", {{"image", image}, {"label", label}});
    return warnings_of("{name: npz, fname: " + dir / "t.npz" + "}", pp);
  };
  const auto has = [](const Lines& found, const std::string& part) {
    return found.size() == 1 && contains(found[0], "warning: input." + part);
  };
  const at::Tensor bytes = ones.mul(255).to(at::kByte);
  CHECK(lines(bytes, "value_range(-1, 1)") == Lines{});
  CHECK(lines(bytes, "vgg_value_range") == Lines{});
  CHECK(lines(bytes, "value_range(0, 255)") == Lines{});
  CHECK(lines(ones, "value_range(-1, 1, 0, 1)") == Lines{});
  CHECK(has(lines(ones, "value_range(-1, 1)"), "pp: makes images with values from -1 to -0.99"));
  CHECK(has(lines(ones, "vgg_value_range"), "pp: makes images with values from -2.1"));
  CHECK(has(lines(bytes, "value_range(-1, 1)|value_range(-1, 1)"),
            "pp: makes images with values from -1.00"));
  CHECK(has(lines(bytes, "value_range(-1, 1, 0, 1)"), "pp: makes images with values from "));
  CHECK(has(lines(bytes.to(at::kInt).mul(257), "value_range(-1, 1)"),
            "pp: makes images with values from "));

  const at::Tensor first = bytes.movedim(3, 1).contiguous();
  CHECK(has(lines(first, "value_range(-1, 1)"),
            "data: has images of the shape (3, 8, 8), which looks like (channels, height, width): "
            "store them as (height, width, channels), by transpose(0, 2, 3, 1)"));
  const at::Tensor grey = at::rand({4, 1, 8, 8});
  CHECK(has(lines(grey, "value_range(-1, 1, 0, 1)"), "data: has images of the shape (1, 8, 8)"));
  CHECK(lines(grey, "reshape([8, 8, 1])|value_range(-1, 1, 0, 1)") == Lines{});
  CHECK(lines(at::rand({4, 1, 32, 9}), "value_range(-1, 1, 0, 1)") == Lines{});  // sequences
}

TEST_CASE("evaluators that do not fit the task of the run give a warning") {
  const auto lines = [](const std::string& loss, const std::string& evaluator) {
    const std::string text = config_text(kDigits, "value_range(-1, 1)");
    return warnings_of(replace_all(text, "loss: softmax_xent\n", loss) +
                       "evals:\n  val:\n    data: {name: digits, split: test}\n" +
                       "    pp_fn: value_range(-1, 1)" + kLabels + "\n    " + evaluator + "\n");
  };
  const auto warns = [&](const std::string& loss, const std::string& evaluator,
                         const std::string& warning) {
    const Lines found = lines(loss, evaluator);
    return found.size() == 1 && contains(found[0], "warning: evals.val." + warning);
  };
  const std::string several = "loss: sigmoid_xent\ntask_kw: {multilabel: true}\n";
  const std::string one = "expects one class per image, but the task has multilabel: true";
  CHECK(warns(several, "type: classification\n    loss_name: sigmoid_xent",
              "type: classification " + one));
  CHECK(warns(several, "type: calibration", "type: calibration " + one));
  CHECK(lines(several, "type: class_metrics\n    threshold: 0.4") == Lines{});
  CHECK(warns("loss: softmax_xent\n", "type: class_metrics\n    multilabel: true",
              "multilabel: takes the sigmoid of each output"));
  CHECK(lines("loss: sigmoid_xent\n", "type: class_metrics\n    multilabel: true") == Lines{});
  for (const std::string loss : {"", "loss: l1\n"}) {
    for (const std::string type : {"class_metrics", "calibration"}) {
      CHECK(warns(loss + "task: regress\n", "type: " + type,
                  "type: " + type + " measures classes, but task: regress predicts numbers"));
    }
    CHECK(warns(loss + "task: regress\n", "type: classification\n    loss_name: softmax_xent",
                "type: classification measures classes, but task: regress predicts numbers"));
  }
}

TEST_CASE("a vit's dtype_mm is the precision of the run") {
  const auto recipe_of = [](const Config& config) {
    return Recipe(config, /*synthetic=*/false, /*meta=*/true).precision_choice;
  };
  const auto text = [](const std::string& more) {
    return replace_all(config_text(kDigits, "value_range(-1, 1)"),
                       "model_name: cnn\nmodel: {widths: [], dense: 8}\n",
                       "model_name: vit\nmodel: {variant: mu/4, dtype_mm: bfloat16}\n" + more);
  };
  const Config config = parse_config(text("precision: float32\n"), "x.yaml");
  CHECK(recipe_of(config).name() == "bf16");
  CHECK(recipe_of(config).word == "float32");
  CHECK(warnings(config) == Lines{"x.yaml:10:12: warning: precision: has no effect, because "
                                  "model.dtype_mm is bfloat16"});
  CHECK(recipe_of(parse_config(text(""), "x.yaml")).text() ==
        "auto: bf16, because model.dtype_mm is bfloat16");
  CHECK(warnings_of(text("precision: bf16\n")).empty());
}

TEST_CASE("a missing loss gives a warning if an evaluator measures another one than the default") {
  const auto lines = [](const std::string& loss, const std::string& loss_name) {
    const std::string text = config_text(kDigits, "value_range(-1, 1)");
    return warnings_of(replace_all(text, "loss: softmax_xent\n", loss) +
                       "evals:\n  val:\n    type: classification\n" +
                       "    data: {name: digits, split: test}\n    pp_fn: value_range(-1, 1)" +
                       kLabels + "\n    loss_name: " + loss_name + "\n");
  };
  CHECK(lines("", "softmax_xent") ==
        Lines{"x.yaml: warning: loss: is missing, so training uses sigmoid_xent as big_vision "
              "does, but evals.val measures softmax_xent"});
  CHECK(lines("", "sigmoid_xent") == Lines{});
  CHECK(lines("loss: sigmoid_xent\n", "softmax_xent") == Lines{});
}

}  // namespace bv::test
