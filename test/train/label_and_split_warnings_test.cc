// Warnings about labels, and about splits that share examples or lack classes, which a run gives at
// its start.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/ckpt/formats/npz.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"
#include "test/support/text.h"
#include "test/train/recipe_warnings.h"

namespace bv::test {

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

TEST_CASE("a second recipe from a config, as in --dry-run, does not take `auto` for a number") {
  const TempFolder dir;
  dir.write("1.jpg", flat_jpeg(90));
  dir.write("2.jpg", flat_jpeg(200));
  const std::string file = dir.write("a.csv", "image,label\n1.jpg,20\n2.jpg,56\n");
  const Config config = parse_config(
      config_text("{name: csv, fname: " + file + "}", "decode|value_range(-1, 1)"), "x.yaml");
  const Recipe first(config, /*synthetic=*/false, /*meta=*/true);
  const Lines lines = warnings(config);
  CHECK(lines.size() == 1);
  const Recipe second(config, /*synthetic=*/false, /*meta=*/true);
  CHECK(second.num_classes == 57);
  CHECK(warnings(config) == lines);
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

}  // namespace bv::test
