// bvtrain init with the real binary: the generated config trains without edits.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "test/init/data_folders.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// The folder in which init and the training run, as the user's.
class WorkingFolder : public TempFolder {
 public:
  WorkingFolder() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path());
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

Finished succeed(const std::vector<std::string>& args) {
  Finished finished = run(args);
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  return finished;
}

// Trains the unedited file for a few steps and returns the last row of metrics.
TextRow train_few_steps(const std::string& config, const std::string& steps = "6",
                        std::vector<std::string> more = {}) {
  more.insert(more.begin(),
              {"--config", config, "--workdir", "out/" + config, "--set", "total_steps=" + steps});
  const Finished finished = succeed(more);
  CHECK(finished.err.find("warning") == std::string::npos);
  return metric_rows("out/" + config).back();
}

}  // namespace

TEST_CASE("init writes a config for class folders, and never overwrites one") {
  const WorkingFolder dir;
  write_class("photos", "cat", 30, 20, 48, 64);
  write_class("photos", "dog", 12, 200, 66, 48);
  write_class("photos", "bird", 12, 100, 50, 50);
  const Finished finished = succeed({"init", "photos/"});
  CHECK(finished.err.empty());
  CHECK(contains(finished.out, "photos: image folder, <class>/<file>\n"));
  CHECK(contains(finished.out, "train[:80%]: 43 images\n"));
  CHECK(contains(finished.out, "3: bird 12, cat 30, dog 12\n"));
  CHECK(contains(finished.out,
                 "50x50 to 48x66, typically 64x48, colour (54 of 54 decoded, none broken)"));
  CHECK(contains(finished.out, "\n  bvtrain --config photos.yaml --workdir out/photos\n"));
  CHECK(contains(read_text("photos.yaml"), "num_classes: auto"));

  const Finished again = run({"init", "photos"});
  CHECK(again.code == 2);
  CHECK(again.out.empty());
  CHECK(again.err == "photos.yaml: error: exists already; choose another --output\n");
  const Finished nowhere = run({"init", "photos", "--output", "none/photos.yaml"});
  CHECK(nowhere.code == 2);
  CHECK(nowhere.err == "--output none/photos.yaml: error: there is no folder 'none'\n");

  CHECK(train_few_steps("photos.yaml", "2").contains("val/prec@1"));
}

TEST_CASE("init --json says what was found; training skips broken files and learns") {
  const WorkingFolder dir;
  for (const char* split : {"train", "val", "test"}) {
    write_class(fmt::format("d/{}", split), "a", 4, 20);
    write_class(fmt::format("d/{}", split), "b", 4, 200);
  }
  write("d/train/a/cut.jpg", plain_jpeg(16, 16, 9).substr(0, 200));
  write("d/train/a/read.me", "");
  const Finished finished = succeed({"init", "d", "--json", "--output", "my own.yaml"});
  const auto found = nlohmann::json::parse(finished.out);
  CHECK(found.at("output") == "my own.yaml");
  CHECK(found.at("command") == "bvtrain --config 'my own.yaml' --workdir 'out/my own'");
  CHECK(found.at("source") == "image_folder");
  CHECK(found.at("train").at("split") == "train");
  CHECK(found.at("validation").at("examples") == 8);
  CHECK(found.at("classes")[1] ==
        nlohmann::json({{"name", "b"}, {"examples", 4}, {"validation", 4}}));
  CHECK(found.at("broken_files") == 1);
  CHECK(found.at("images").at("decoded") == 17);
  CHECK(found.at("notes").size() == 1);
  // Broken files stop a run unless the config says that they are skipped.
  succeed({"--config", "my own.yaml", "--workdir", "w", "--set", "total_steps=20"});
  const std::vector<TextRow> rows = metric_rows("w");
  CHECK(rows.back().contains("test/prec@1"));
  const auto first = std::find_if(rows.begin(), rows.end(),
                                  [](const TextRow& row) { return row.contains("training_loss"); });
  REQUIRE(first != rows.end());
  CHECK(std::stod(rows.back().at("training_loss")) < std::stod(first->at("training_loss")));
}

TEST_CASE("init knows IDX, CIFAR and npz files, and their configs train") {
  const WorkingFolder dir;
  write_idx("digits", "train", 60);
  write_idx("digits", "t10k", 12);
  succeed({"init", "digits"});
  CHECK(train_few_steps("digits.yaml").contains("test/prec@1"));
  write_cifar10("cifar", 8);
  succeed({"init", "cifar"});
  CHECK(train_few_steps("cifar.yaml", "2").contains("test/prec@1"));
  std::filesystem::create_directory("arrays");
  write_npz("arrays/all.npz", sorted_arrays(4, 25));
  succeed({"init", "arrays"});
  CHECK(train_few_steps("arrays.yaml").contains("val/prec@1"));
}

TEST_CASE("init --from fine-tunes the model of a workdir or of an exported file") {
  const WorkingFolder dir;
  write_idx("old", "train", 60);
  succeed({"init", "old"});
  train_few_steps("old.yaml", "3");
  succeed({"export", "--workdir", "out/old.yaml", "--output", "m.safetensors"});
  write_class("new", "a", 12, 20, 20, 20);
  write_class("new", "b", 12, 200, 20, 20);
  for (const std::string from : {"out/old.yaml", "m.safetensors"}) {
    const std::string output = from == "m.safetensors" ? "file.yaml" : "run.yaml";
    succeed({"init", "new", "--from", from, "--output", output});
    CHECK(contains(read_text(output), "model_init: " + from + "\n"));
    CHECK(train_few_steps(output, "3").contains("val/prec@1"));
  }
  const Finished none = run({"init", "new", "--from", "none.npz"});
  CHECK(none.code == 2);
  CHECK(none.err == "none.npz: error: no such weights file or checkpoint\n");
  CHECK_FALSE(exists("new.yaml"));
}

TEST_CASE("init --from scales the values of the new data to the range of the old training") {
  const WorkingFolder dir;
  std::filesystem::create_directory("floats");
  write_npz("floats/all.npz", sorted_arrays(4, 100));
  const Finished finished = succeed({"init", "floats"});
  CHECK(contains(finished.out, "200 epochs, 2,000 steps of 32 images."));
  CHECK(count(read_text("floats.yaml"), "value_range(-1, 1, 0, 1)|") == 2);
  train_few_steps("floats.yaml", "3");

  write_class("photos", "a", 12, 20, 20, 20);
  write_class("photos", "b", 12, 200, 20, 20);
  succeed({"init", "photos", "--from", "out/floats.yaml"});
  CHECK(count(read_text("photos.yaml"), "|value_range(-1, 1)|") == 2);
  train_few_steps("photos.yaml", "3");

  succeed({"init", "floats", "--from", "out/photos.yaml", "--output", "back.yaml"});
  CHECK(count(read_text("back.yaml"), "value_range(-1, 1, 0, 1)|") == 2);
  CHECK(train_few_steps("back.yaml", "3").contains("val/prec@1"));
}

TEST_CASE("init --task regress: the config trains, also from the weights of another regression") {
  const WorkingFolder dir;
  std::string list = "file,age\n";
  for (int i = 0; i < 40; ++i) {
    write(fmt::format("faces/img/{}.jpg", i), plain_jpeg(20, 24, 6 * i));
    list += fmt::format("img/{}.jpg,{}\n", i, 20 + i * 37 % 40);
  }
  write("faces/list.csv", list);
  const Finished finished = succeed({"init", "faces", "--label", "age", "--task", "regress"});
  CHECK(finished.err.empty());
  CHECK(contains(finished.out, "\ntargets     age: 20 to 59, mean 39.5\n"));
  const TextRow row = train_few_steps("faces.yaml", "3");
  CHECK(row.contains("val/mae"));
  CHECK(row.contains("val/r2"));
  succeed({"init", "faces", "--label", "age", "--task", "regress", "--from", "out/faces.yaml",
           "--output", "tuned.yaml"});
  CHECK(train_few_steps("tuned.yaml", "2").contains("val/mae"));

  const Finished wrong = run({"init", "faces", "--label", "agee", "--output", "x.yaml"});
  CHECK(wrong.code == 2);
  CHECK(wrong.err ==
        "faces/list.csv: error: no column 'agee' for `label` (did you mean 'age'?); columns: file, "
        "age\n");
  CHECK(run({"init", "faces", "--task", "regression", "--output", "x.yaml"}).code == 2);
  CHECK_FALSE(exists("x.yaml"));
}

TEST_CASE("init --task multilabel: the configs train, with several classes in a cell or columns") {
  const WorkingFolder dir;
  const char* const tags[] = {"cat;dog", "dog", "", "bird;cat"};
  std::string list = "image,tags,hot,wet\n";
  for (int i = 0; i < 40; ++i) {
    write(fmt::format("pets/{}.jpg", i), plain_jpeg(20, 24, 6 * i));
    list += fmt::format("{}.jpg,{},{:d},{:d}\n", i, tags[i % 4], i % 2 == 0, i % 3 == 0);
  }
  write("pets/list.csv", list);
  const Finished finished = succeed({"init", "pets", "--label", "tags", "--task", "multilabel"});
  CHECK(finished.err.empty());
  CHECK(contains(finished.out, "3: bird 10, cat 20, dog 20\n"));
  CHECK(contains(finished.out, "without any class: 10 of 40 images\n"));
  CHECK(contains(read_text("pets.yaml"), "classes: [bird, cat, dog]"));
  const TextRow row = train_few_steps("pets.yaml", "2");
  for (const char* metric : {"val/map", "val/auroc_macro", "val/f1_macro"})
    CHECK(row.contains(metric));
  succeed({"init", "pets", "--label", "hot,wet", "--task", "multilabel", "--output", "two.yaml"});
  CHECK(train_few_steps("two.yaml", "2").contains("val/map"));
}

TEST_CASE("init --label: the config trains on the classes of that column") {
  const WorkingFolder dir;
  std::string list = "image,id,sex\n";
  for (int i = 0; i < 40; ++i) {
    write(fmt::format("faces/{}.jpg", i), plain_jpeg(20, 24, 6 * i));
    list += fmt::format("{0}.jpg,{0},{1}\n", i, i % 3 == 0 ? "m" : "f");
  }
  write("faces/list.csv", list);
  CHECK(contains(run({"init", "faces"}).err, "its other columns are id, sex: choose with --label"));
  const Finished finished = succeed({"init", "faces", "--label", "sex"});
  CHECK(contains(finished.out, "2: f 26, m 14\n"));
  CHECK(train_few_steps("faces.yaml", "2").contains("val/prec@1"));
}

TEST_CASE("init refuses what it cannot use in one line, and writes nothing") {
  const WorkingFolder dir;
  std::filesystem::create_directory("empty");
  write_class("one", "cat", 5, 20);
  const auto line = [](const std::vector<std::string>& args) {
    const Finished finished = run(args);
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    return finished.err;
  };
  CHECK(line({"init", "none"}) == "none: error: no such folder\n");
  CHECK(line({"init", "empty"}) == "empty: error: is empty\n");
  CHECK(line({"init", "one/cat/0.jpg"}) ==
        "one/cat/0.jpg: error: is a file; give the folder that holds the data\n");
  CHECK(line({"init", "one"}) ==
        "one: error: has images of one class only, 'cat': a classifier needs at least two\n");
  CHECK(contains(line({"init"}), "the argument FOLDER is missing; see bvtrain init --help"));
  CHECK(std::distance(std::filesystem::directory_iterator("."), {}) == 2);
}

}  // namespace bv::test
