// The classes of the training data and those of an evaluator's data.
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/train/recipe.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Returns a run that trains on one part of a source, and evaluates on another. `label_ops` are the
// ops that make `labels`.
Config classes_config(
    const std::string& train, const std::string& val, const std::string& num_classes = "auto",
    int total_steps = 4,
    const std::string& label_ops = "onehot(num_classes, key='label', key_result='labels')") {
  const std::string pp = "decode|value_range(-1, 1)|" + label_ops + "|keep('image', 'labels')";
  return parse_config("num_classes: " + num_classes +
                          fmt::format("\ntotal_steps: {}\nlog_training_steps: 2\n", total_steps) +
                          "input:\n"
                          "  data: " +
                          train + "\n  batch_size: 2\n  pp: " + pp +
                          "\n"
                          "model_name: cnn\nloss: softmax_xent\noptax_name: scale_by_adam\n"
                          "lr: 0.001\n"
                          "evals:\n"
                          "  val:\n"
                          "    type: classification\n"
                          "    data: " +
                          val + "\n    pp_fn: " + pp +
                          "\n    loss_name: softmax_xent\n    log_steps: 4\n",
                      "x.yaml");
}

// Returns the warnings about the evaluator's data.
std::vector<std::string> val_data_warnings(const Config& config) {
  const Recipe recipe(config, /*synthetic=*/false, /*meta=*/true);
  std::vector<std::string> lines = warnings(recipe.config);
  std::erase_if(lines, [](const std::string& line) { return !contains(line, "evals.val.data:"); });
  return lines;
}

// Returns a run that trains on the arrays of `npz` and then on the class folders in `folder`.
Config mixture_of(const std::string& npz, const std::string& folder) {
  const std::string pp =
      "value_range(-1, 1)|onehot(num_classes, key='label', key_result='labels')|"
      "keep('image', 'labels')";
  return parse_config(
      "num_classes: auto\ntotal_steps: 4\nlog_training_steps: 2\n"
      "input:\n"
      "  data: {a: 1, b: 1}\n"
      "  a: {data: {name: npz, fname: " +
          npz + "}, pp: \"" + pp +
          "\"}\n"
          "  b: {data: {name: image_folder, data_dir: " +
          folder + "}, pp: \"decode|" + pp +
          "\"}\n"
          "  batch_size: 2\n"
          "model_name: cnn\nloss: softmax_xent\noptax_name: scale_by_adam\n"
          "lr: 0.001\n",
      "x.yaml");
}

}  // namespace

TEST_CASE("the classes of generated data cannot be counted") {
  const std::string digits = "{name: digits, split: train}";
  CHECK(error_of([&] {
          const Recipe recipe(classes_config(digits, digits), /*synthetic=*/true, /*meta=*/true);
        }) ==
        "x.yaml:1:14: error: num_classes: 'auto' counts the classes of the data, which --synthetic "
        "does not read; give a number, e.g. --set num_classes=10");
}

TEST_CASE("an evaluator's classes that training never has are warned of") {
  const TempFolder folder;
  for (const char* file : {"train/Cat/1", "train/Cat/2", "train/dog/1", "val/cat/1", "val/cat/2",
                           "val/dog/1", "val/emu/1", "sound/dog/1"})
    folder.write(std::string(file) + ".jpg", flat_jpeg(90));
  const auto split = [&](const std::string& name) {
    return "{name: image_folder, data_dir: " + folder.path() + ", split: " + name + "}";
  };
  const std::vector<std::string> found =
      val_data_warnings(classes_config(split("train"), split("val")));
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0],
             Catch::EndsWith("warning: evals.val.data: 3 of 4 examples belong to classes that have "
                             "no training example, so the model cannot learn them: cat (training "
                             "has 'Cat'), emu; add training examples, or correct the names"));
  CHECK(val_data_warnings(classes_config(split("train"), split("sound"))).empty());
  CHECK(val_data_warnings(classes_config(split("all"), split("val"))).empty());
  CHECK(val_data_warnings(classes_config(split("train"), split("val"), "auto", /*total_steps=*/0))
            .empty());
  CHECK(error_of([&] { val_data_warnings(classes_config(split("train"), split("val"), "2")); }) ==
        "x.yaml:1:14: error: num_classes: 2 is less than the 4 classes of the training data (Cat, "
        "cat, dog, emu), though no training example belongs to class cat, emu; set it to 4 or to "
        "auto");
}

TEST_CASE("a class that only the validation rows of a csv file have is warned of") {
  const TempFolder folder;
  folder.write("1.jpg", flat_jpeg(90));
  const std::string file = folder.write(
      "all.csv", "image,label,part\n1.jpg,a,tr\n1.jpg,b,tr\n1.jpg,a,va\n1.jpg,c,va\n1.jpg,c,va\n");
  const auto part = [&](const std::string& name) {
    return "{name: csv, fname: " + file + ", split_column: part, split: " + name + "}";
  };
  const std::vector<std::string> found = val_data_warnings(classes_config(part("tr"), part("va")));
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], Catch::Contains("2 of 3 examples belong to classes that have no training "
                                       "example, so the model cannot learn them: c; add"));
}

TEST_CASE("class names that pp does not use need not be those of the training data") {
  const TempFolder folder;
  folder.write("1.jpg", flat_jpeg(90));
  const std::string kinds = folder.write("kinds.txt", "x\nyy\n");
  const auto csv = [&](const std::string& name, const std::string& label) {
    return "{name: csv, split: all, fname: " +
           folder.write(name, "image,label,kind\n1.jpg,cat,x\n1.jpg," + label + ",yy\n");
  };
  const std::string train = csv("train.csv", "dog") + "}", val = csv("val.csv", "ship");
  const std::string label_ops = "lookup('" + kinds +
                                "', inkey='kind', outkey='k')|"
                                "onehot(2, key='k', key_result='labels')";
  for (const std::string end : {"}", ", unknown_classes: skip}"})
    CHECK(val_data_warnings(classes_config(train, val + end, "2", 4, label_ops)).empty());
}

TEST_CASE("a warning names class numbers that only the evaluator's data have") {
  const TempFolder folder;
  folder.write("1.jpg", flat_jpeg(90));
  const auto csv = [&](const std::string& name, const std::vector<int>& labels) {
    std::string text = "image,label\n";
    for (const int label : labels) text += fmt::format("1.jpg,{}\n", label);
    return "{name: csv, split: all, fname: " + folder.write(name, text) + "}";
  };
  const std::string from_one = csv("train.csv", {1, 2, 3}), from_zero = csv("val.csv", {0, 1, 2});
  const std::vector<std::string> found = val_data_warnings(classes_config(from_one, from_zero));
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0],
             Catch::EndsWith("1 of 3 examples belong to classes that have no training example, so "
                             "the model cannot learn them: 0; add training examples, or correct "
                             "the labels (do both data sets count classes from the same number?)"));
  CHECK(val_data_warnings(classes_config(from_one, csv("same.csv", {3, 1}))).empty());
}

TEST_CASE("in a mixture, data without class names before data with names has the same classes") {
  const TempFolder folder;
  for (int label = 0; label < 12; ++label)
    folder.write(fmt::format("classes/{}/1.jpg", label), flat_jpeg(90));
  const std::string npz = folder / "a.npz";
  write_npz(npz, {{"image", at::zeros({12, 8, 8, 3}, at::kByte)}, {"label", at::arange(12)}});
  const Recipe first(mixture_of(npz, folder / "classes"), /*synthetic=*/false, /*meta=*/true);
  const std::vector<std::string> names = first.data->class_names();
  REQUIRE(names ==
          std::vector<std::string>{"0", "1", "10", "11", "2", "3", "4", "5", "6", "7", "8", "9"});
  for (const TrainingData::Part& part : first.data->parts()) {
    INFO(part.name);
    for (int64_t i = 0; i < 12; ++i) {
      const int64_t label = part.data->read(i).at("label").item<int64_t>();
      // The folders are read in the order of their names, the arrays by their numbers.
      CHECK(names.at(label) == (part.name == "a" ? fmt::format("{}", i) : names.at(i)));
    }
  }
  // A restart has the classes from the checkpoint. It compares the fingerprints of the data.
  const Recipe restarted(mixture_of(npz, folder / "classes"), /*synthetic=*/false, /*meta=*/true,
                         Group::single(), c10::kCPU, /*ranks_at_start=*/0,
                         ClassNames{names, "the checkpoint"});
  CHECK(restarted.data->fingerprint() == first.data->fingerprint());
  const std::vector<std::string> warned = warnings(first.config);
  CHECK(std::count_if(warned.begin(), warned.end(), [](const std::string& line) {
          return contains(line,
                          "input.a.data: has no class names, but the training data has: "
                          "these names are numbers, so label 2 is the class '2'");
        }) == 1);
}

}  // namespace bv::test
