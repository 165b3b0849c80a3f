// Warnings about data and preprocessing, which a run gives at its start. The configs are read in
// this process, as in a run with --explain.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/train/recipe.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

using Lines = std::vector<std::string>;

const std::string kLabels =
    R"(|onehot(num_classes, key="label", key_result="labels")|keep("image", "labels"))";

// Returns the text of a config without evaluators.
std::string config_text(const std::string& data, const std::string& pp) {
  return "num_classes: auto\ntotal_steps: 1\nlog_training_steps: 1\ninput:\n  batch_size: 2\n  "
         "data: " +
         data + "\n  pp: " + pp + kLabels +
         "\nmodel_name: cnn\nmodel: {widths: [], dense: 8}\nloss: softmax_xent\noptax_name: sgd\n"
         "lr: 0.1\n";
}

Lines warnings_of(const std::string& text) {
  const Config config = parse_config(text, "x.yaml");
  const Recipe recipe(config, /*synthetic=*/false, /*meta=*/true);
  return warnings(config);
}

// Returns the warnings of a run on `data`. `pp` and `pp_fn` make no labels. Without `eval_data` and
// `pp_fn` there is no evaluator. `pp` is in x.yaml:7:7 and `pp_fn` in x.yaml:17:12.
Lines warnings_of(const std::string& data, const std::string& pp, const std::string& eval_data = "",
                  const std::string& pp_fn = "") {
  std::string text = config_text(data, pp);
  if (!pp_fn.empty()) {
    text += "evals:\n  val:\n    type: classification\n    data: " + eval_data +
            "\n    pp_fn: " + pp_fn + kLabels + "\n    loss_name: softmax_xent\n";
  }
  return warnings_of(text);
}

const std::string kDigits = "{name: digits, split: train}";

}  // namespace

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

TEST_CASE("whole numbers to predict may be negative, and none of them is a missing class") {
  const TempFolder dir;
  write_npz(dir / "t.npz", {{"image", at::linspace(0, 255, 768).to(at::kByte).view({4, 8, 8, 3})},
                            {"label", at::tensor({5, -19, 7, 3}, at::kLong)}});
  CHECK(warnings_of("num_classes: 1\ntotal_steps: 1\nlog_training_steps: 1\ninput:\n"
                    "  batch_size: 2\n  data: {name: npz, split: 'train[:3]', fname: " +
                    dir / "t.npz" +
                    "}\n  pp: value_range(-1, 1)|keep(\"image\", \"label\")\n"
                    "model_name: cnn\nmodel: {widths: [], dense: 8}\ntask: regress\n"
                    "optax_name: sgd\nlr: 0.1\n") == Lines{});
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

TEST_CASE("an evaluator on examples of the training gives a warning") {
  const auto lines = [](const std::string& train, const std::string& split,
                        const std::string& name = "val") {
    return warnings_of(
        config_text("{name: digits, split: '" + train + "'}", "value_range(-1, 1)") + "evals:\n  " +
        name + ":\n    type: classification\n" + "    data: {name: digits, split: '" + split +
        "'}\n    pp_fn: value_range(-1, 1)" + kLabels + "\n    loss_name: softmax_xent\n");
  };
  const std::string rest =
      " examples of evals.val are also training examples, so its metrics do not show how good the "
      "model is on new examples; a name such as 'train' or 'minitrain' turns this "
      "warning off";
  const std::string place = "x.yaml:16:33: warning: evals.val.data.split: ";
  CHECK(lines("train[:80%]", "train[:20%]") == Lines{place + "287 of the 287" + rest});
  CHECK(lines("all", "test") == Lines{place + "360 of the 360" + rest});
  CHECK(lines("train[:80%]", "train[80%:]+train[:3]") == Lines{place + "3 of the 290" + rest});
  CHECK(lines("train[:80%]", "train[80%:]") == Lines{});
  CHECK(lines("train", "test") == Lines{});
  CHECK(lines("train", "train[:100]", "minitrain") == Lines{});
}

TEST_CASE("writing out the default keys does not change which data set it is") {
  const TempFolder dir;
  dir.write("1.jpg", flat_jpeg(90));
  dir.write("2.jpg", flat_jpeg(200));
  const std::string file = dir.write("a.csv", "image,label\n1.jpg,a\n2.jpg,b\n");
  const std::string pp = "decode|value_range(-1, 1)", data = "{name: csv, fname: " + file;
  const Lines lines = warnings_of(data + "}", pp, data + ", split: all, multilabel: false}", pp);
  REQUIRE(lines.size() == 1);
  CHECK(contains(lines[0], "evals.val.data.split: 2 of the 2 examples"));
}

TEST_CASE("another spelling of a path does not change which data set it is") {
  const TempFolder dir;
  dir.write("in/1.jpg", flat_jpeg(90));
  dir.write("in/2.jpg", flat_jpeg(200));
  dir.write("in/a.csv", "image,label\n1.jpg,a\n2.jpg,b\n");
  std::filesystem::create_directory_symlink("in", dir / "link");
  const auto data = [&](const std::string& file) {
    return "{name: csv, fname: " + dir / file + ", split: all}";
  };
  const std::string pp = "decode|value_range(-1, 1)";
  for (const char* other : {"in/./a.csv", "in/../in/a.csv", "link/a.csv"}) {
    const Lines lines = warnings_of(data("in/a.csv"), pp, data(other), pp);
    REQUIRE(lines.size() == 1);
    CHECK(contains(lines[0], "evals.val.data.split: 2 of the 2 examples"));
  }
}

TEST_CASE("an evaluator's slice without examples of a frequent class gives a warning") {
  const TempFolder dir;
  const auto lines = [&](const at::Tensor& labels, const std::string& train,
                         const std::string& val) {
    const int64_t n = labels.size(0);
    const at::Tensor image = at::linspace(0, 255, 192).to(at::kByte).view({1, 8, 8, 3});
    write_npz(dir / "t.npz", {{"image", image.repeat({n, 1, 1, 1})}, {"label", labels}});
    const std::string data = "{name: npz, fname: " + dir / "t.npz" + ", split: '";
    return warnings_of(data + train + "'}", "value_range(-1, 1)", data + val + "'}",
                       "value_range(-1, 1)");
  };
  // Because of its last row, the data is not sorted by class. So slices are cut in file order.
  const at::Tensor sorted = at::arange(3).repeat_interleave(20);
  const at::Tensor almost = at::cat({sorted, at::zeros({1}, at::kLong)});
  const Lines found = lines(almost, "train[:80%]", "train[80%:]");
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0],
                 "warning: evals.val.data: split 'train[80%:]' has no example of 1 of the "
                 "3 classes: 1"));
  CHECK(lines(sorted, "train[:80%]", "train[80%:]") == Lines{});
  // One row of 61 is likely to be in the larger slice.
  const at::Tensor rare = at::cat({at::full({1}, 2, at::kLong), at::arange(60).remainder(2)});
  CHECK(lines(rare, "train[:80%]", "train[80%:]") == Lines{});
}

TEST_CASE("labels of a csv file that look like several labels or like numbers give a warning") {
  const TempFolder dir;
  dir.write("1.jpg", flat_jpeg(90));
  dir.write("2.jpg", flat_jpeg(200));
  const auto lines = [&](const std::string& first, const std::string& second) {
    const std::string rows = "image,label\n1.jpg," + first + "\n2.jpg," + second + "\n";
    return warnings_of("{name: csv, fname: " + dir.write("a.csv", rows) + "}",
                       "decode|value_range(-1, 1)");
  };
  CHECK(lines("ship;odd", "airplane;odd") ==
        Lines{"x.yaml:6:9: warning: input.data: label 'airplane;odd' looks like several labels; "
              "with multilabel: true they are read as such"});
  CHECK(lines("ship", "ship|odd").size() == 1);
  CHECK(lines("ship;grey", "airplane;odd") == Lines{});
  CHECK(
      lines("20", "56") ==
      Lines{
          "x.yaml:1:14: warning: num_classes: auto took the integers 20 to 56 in the labels as "
          "classes, and 55 numbers below 57 do not occur; to predict numbers, use task: regress"});
  CHECK(lines("1", "3") ==
        Lines{"x.yaml:1:14: warning: num_classes: 4 is more than the training data needs: no "
              "example has label 0, 2"});
}

TEST_CASE("labels of classes outside 0 to 1 give a warning: task: regress may be missing") {
  const TempFolder dir;
  dir.write("1.jpg", flat_jpeg(90));
  dir.write("2.jpg", flat_jpeg(200));
  const auto lines = [&](const std::string& first, const std::string& second) {
    const std::string rows = "image,age\n1.jpg," + first + "\n2.jpg," + second + "\n";
    const std::string data = "{name: csv, fname: " + dir.write("a.csv", rows) + ", label: [age]}";
    const std::string text = replace_all(config_text(data, "decode|value_range(-1, 1)"), kLabels,
                                         "|keep(\"image\", \"labels\")");
    return warnings_of(replace_all(text, "softmax_xent", "sigmoid_xent"));
  };
  CHECK(lines("22", "58") ==
        Lines{"x.yaml:7:7: warning: input.pp: gives 'labels' with values from 22 to 58, but those "
              "of classes are within 0 and 1; to predict numbers, use task: regress"});
  CHECK(lines("0", "1") == Lines{});
  CHECK(lines("0.5", "0.25") == Lines{});
}

TEST_CASE("slices and folds that depend on whole numbers to predict give a warning") {
  const TempFolder dir;
  const auto warned = [&](const at::Tensor& label, const std::string& split) {
    write_npz(dir / "t.npz",
              {{"image", at::linspace(0, 255, 8 * 192).view({8, 8, 8, 3})}, {"label", label}});
    const std::string data = "{name: npz, fname: " + dir / "t.npz" + ", split: '" + split + "'}";
    std::string text = config_text(data, "value_range(-1, 1)");
    text = replace_all(text, kLabels, "|keep(\"image\", \"label\")");
    text = replace_all(text, "num_classes: auto", "num_classes: 1");
    text = replace_all(text, "loss: softmax_xent", "task: regress");
    const Lines all = warnings_of(text);
    return std::any_of(all.begin(), all.end(), [](const std::string& line) {
      return contains(line, "input.data.split: treats the integers in 'label' as classes");
    });
  };
  const at::Tensor sorted = at::tensor({5, 5, 5, 7, 7, 7, 9, 9}, at::kLong);
  const at::Tensor mixed = at::tensor({5, 7, 5, 9, 7, 9, 5, 7}, at::kLong);
  CHECK(warned(sorted, "train[:50%]"));
  CHECK(warned(mixed, "train[fold 1/2]"));
  CHECK_FALSE(warned(mixed, "train[:50%]"));
  CHECK_FALSE(warned(sorted, "train"));
  CHECK_FALSE(warned(sorted.to(at::kFloat), "train[:50%]"));
  CHECK_FALSE(warned(sorted.to(at::kFloat), "train[fold 1/2]"));
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

TEST_CASE("a slice of rows that are sorted by their labels gives a warning") {
  const TempFolder dir;
  const at::Tensor image =
      at::linspace(0, 255, 192).to(at::kByte).view({1, 8, 8, 3}).repeat({30, 1, 1, 1});
  const auto lines = [&](const at::Tensor& labels, const std::string& split,
                         const std::string& task) {
    write_npz(dir / "t.npz", {{"image", image}, {"labels", labels}});
    std::string text = config_text(
        "{name: npz, fname: " + dir / "t.npz" + ", split: '" + split + "'}", "value_range(-1, 1)");
    text = replace_all(text, kLabels, "|keep(\"image\", \"labels\")");
    text = replace_all(text, "num_classes: auto", fmt::format("num_classes: {}", labels.size(1)));
    return warnings_of(replace_all(text, "loss: softmax_xent", task));
  };
  const auto warns = [](const Lines& found, const std::string& part) {
    return found.size() == 1 && contains(found[0], "warning: input.data.split: " + part) &&
           contains(found[0], "take a random part of the rows instead");
  };
  const at::Tensor target = at::arange(30, at::kFloat).view({30, 1});
  CHECK(warns(lines(target, "train[:80%]", "task: regress"),
              "the rows are sorted by target 0, which only rises from 0 to 23"));
  CHECK(lines(target, "train[not fold 1/5]", "task: regress") == Lines{});
  CHECK(lines(target, "train", "task: regress") == Lines{});
  CHECK(lines(target.mul(7).remainder(30), "train[:80%]", "task: regress") == Lines{});

  const at::Tensor classes =
      at::cat({target.lt(10), target.ge(5).logical_and(target.lt(20)), target.ge(20)}, 1)
          .to(at::kFloat);
  const std::string several = "loss: sigmoid_xent\ntask_kw: {multilabel: true}";
  CHECK(warns(lines(classes, "train[:60%]", several),
              "no training example has 1 of the 3 classes: 2; if the rows are sorted"));
  CHECK(lines(classes, "train[:80%]", several) == Lines{});
  CHECK(lines(classes, "train[not fold 1/5]", several) == Lines{});
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
