// What `bvtrain init` finds in files of arrays: IDX, CIFAR and npz.
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>

#include "lib/input/prepare_data.h"
#include "test/init/data_folders.h"
#include "test/init/findings.h"
#include "test/support/config.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

std::atomic<int> g_conversions{0};

std::unique_ptr<at::ObserverContext> count_conversion(const at::RecordFunction& call) {
  if (std::string_view(call.name()) == "aten::_to_copy") ++g_conversions;
  return nullptr;
}

}  // namespace

TEST_CASE("IDX files, with and without test data") {
  const TempFolder dir;
  write_idx(dir.path(), "train", 30);
  DataFindings found = inspect_data(dir.path());
  CHECK(found.data.source == "idx");
  CHECK(found.train == "train[:80%]");
  CHECK(counts(found) == Counts{10, 10, 10});
  CHECK(found.classes[2].name == "2");
  CHECK(found.images.typical == ImageSides{8, 8});
  CHECK(found.images.channels == 1);
  CHECK_FALSE(found.images.encoded);
  write_idx(dir.path(), "t10k", 6);
  found = inspect_data(dir.path());
  CHECK(found.train == "train");
  CHECK(found.validation == "test");
  CHECK(found.validation_examples == 6);
}

TEST_CASE("binary CIFAR, in the folder or below it") {
  const TempFolder dir;
  write_cifar10(dir / "data/cifar-10-batches-bin", 8);
  const DataFindings found = inspect_data(dir / "data");
  CHECK(found.data.kind == "binary files of CIFAR-10");
  CHECK(found.validation == "test");
  CHECK(found.train_examples == 40);
  CHECK(found.images.typical == ImageSides{32, 32});
}

TEST_CASE("npz files: one that is sorted by class, two files, two prefixes") {
  const TempFolder dir;
  write_npz(dir / "data.npz", sorted_arrays(4, 25));
  DataFindings found = inspect_data(dir.path());
  CHECK(found.data.source == "npz");
  CHECK(found.train == "train[:80%]");
  CHECK(found.warnings.empty());  // all classes are in both parts, although the file is sorted
  CHECK(found.images.rank2);
  CHECK(found.images.type == at::kFloat);
  CHECK(found.images.most == 1);

  write_npz(dir / "val.npz", sorted_arrays(4, 2));
  CHECK(problem(dir) ==
        "holds several npz files or arrays with images and labels, and their names do not say "
        "which are for training: expected train.npz and val.npz or test.npz");
  std::filesystem::rename(dir / "data.npz", dir / "train.npz");
  found = inspect_data(dir.path());
  CHECK(found.data.train == DataKeys{{"fname", dir / "train.npz"}});
  CHECK(found.data.validation == DataKeys{{"fname", dir / "val.npz"}});
  CHECK(found.validation_examples == 8);
  Lines notes = {"training: images in image and labels in label of train.npz",
                 "validation: images in image and labels in label of val.npz"};
  CHECK(found.notes == notes);

  write_npz(dir / "test.npz", sorted_arrays(4, 2));
  found = inspect_data(dir.path());
  CHECK(found.data.validation == DataKeys{{"fname", dir / "val.npz"}});
  notes.emplace_back("not used: images in image and labels in label of test.npz");
  CHECK(found.notes == notes);

  // "train" is not a word of this name.
  std::filesystem::rename(dir / "train.npz", dir / "constrain.npz");
  CHECK(contains(problem(dir), "their names do not say which are for training"));
  // Problems with other kinds of data are also reported.
  dir.write("1.jpg", plain_jpeg(8, 8, 9));
  dir.write("t.csv", "image,label\n1.jpg,0.5\n");
  const std::string both_problems = problem(dir);
  CHECK(contains(both_problems, dir / "t.csv" + ": error: has labels such as 0.5, "));
  CHECK(contains(both_problems, "\n" + dir.path() + ": error: holds several npz files"));

  const TempFolder both;
  NamedTensors arrays = sorted_arrays(3, 5, 8, "train/");
  arrays.merge(sorted_arrays(3, 2, 8, "test/"));
  write_npz(both / "x.npz", arrays);
  found = inspect_data(both.path());
  CHECK(found.data.train == DataKeys{{"fname", both / "x.npz"}, {"prefix", "train/"}});
  CHECK(found.validation_examples == 6);
  CHECK(found.notes == Lines{"training: images in train/image and labels in train/label of x.npz",
                             "validation: images in test/image and labels in test/label of x.npz"});
}

TEST_CASE("validation arrays with other values than the training arrays are a warning") {
  const TempFolder dir;
  NamedTensors arrays = sorted_arrays(4, 25);
  arrays.at("image").mul_(0.25);
  write_npz(dir / "train.npz", arrays);
  write_npz(dir / "val.npz", sorted_arrays(4, 2));
  CHECK(inspect_data(dir.path()).warnings ==
        Lines{"validation images have values from 0 to 1, but training images from 0 to 0.25, by "
              "which both are scaled: check that both are stored alike"});
  // Both are in the range 0 to 1, which is the one that init chooses.
  const TempFolder alike;
  arrays.at("image").mul_(2.4);
  write_npz(alike / "train.npz", arrays);
  write_npz(alike / "val.npz", sorted_arrays(4, 2));
  CHECK(inspect_data(alike.path()).warnings.empty());
}

TEST_CASE("one of several npz files has images and labels") {
  const TempFolder dir;
  write_npz(dir / "set.npz", sorted_arrays(3, 5, 8, "x_train_"));
  write_npz(dir / "other.npz", {{"other", at::full({2}, 1.0)}});
  const DataFindings found = inspect_data(dir.path());
  CHECK(found.notes ==
        Lines{"taken: images in x_train_image and labels in x_train_label of set.npz"});
}

TEST_CASE("if an npz file has images, the error says what is wrong with its labels") {
  const TempFolder dir;
  const std::string place = dir / "data.npz" + ": error: ";
  const at::Tensor image = at::zeros({12, 8, 8, 3}, at::kByte);
  const auto fault = [&](const NamedTensors& arrays, const NamedTexts& texts = {}) {
    write_npz(dir / "data.npz", arrays, texts);
    const std::string line = problem(dir);
    CHECK(line.starts_with(place));
    return line.substr(std::min(place.size(), line.size()));
  };
  const std::string need =
      "; classes must be integers of shape (N); for other targets write the config "
      "(docs/labels.md)";
  CHECK(fault({{"image", image}, {"label", at::zeros({12})}}) ==
        "'label' is float32 of shape (12)" + need);
  CHECK(fault({{"train_image", image}, {"train_label", at::zeros({12, 2}, at::kLong)}}) ==
        "'train_label' is int64 of shape (12, 2)" + need);
  CHECK(fault({{"image", image}, {"labels", at::zeros({12}, at::kLong)}}) ==
        "'image' needs an array of numbers 'label', but the file has only: image, labels" + need);
  CHECK(fault({{"image", image}}, {{"label", std::vector<std::string>(12, "cat")}}) ==
        "'image' needs an array of numbers 'label', but the file has only: image" + need);
  CHECK(fault({{"x", image}, {"y", at::zeros({12}, at::kLong)}}) ==
        "'x' looks like images, but images must be in the array 'image', and their classes, "
        "integers of shape (N), in 'label'; there are: x, y");
}

TEST_CASE("an npz file is read once") {
  const TempFolder dir;
  NamedTensors arrays = sorted_arrays(4, 25);
  arrays["label"] = arrays["label"].to(at::kInt);  // becomes int64 whenever it is read
  write_npz(dir / "data.npz", arrays);
  g_conversions = 0;
  const at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(count_conversion).scopes({at::RecordScope::FUNCTION}));
  const DataFindings found = inspect_data(dir.path());
  at::removeCallback(handle);
  CHECK(found.examples == 100);
  CHECK(g_conversions == 1);
}

TEST_CASE("arrays with values that are not finite are refused") {
  const TempFolder dir;
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    NamedTensors arrays = sorted_arrays(4, 25);
    arrays["image"].select(0, 7).select(0, 3).select(0, 2).fill_(value);
    write_npz(dir / "data.npz", arrays);
    CHECK(problem(dir) ==
          fmt::format("'image' of train row 7 holds the value {}; replace values that are not "
                      "finite",
                      value));
  }
}

TEST_CASE("a slice of arrays that are sorted by class has all classes") {
  const TempFolder dir;
  write_npz(dir / "sorted.npz", sorted_arrays(4, 25));
  const auto open = [&](const std::string& split) {
    return from_yaml("{name: npz, fname: " + dir / "sorted.npz" + ", split: '" + split + "'}",
                     [](const Config& config) { return prepare_data(config, {}); })(std::nullopt);
  };
  CHECK(open("train[80%:]")->missing_classes().empty());
  // The whole split is in the order of the file.
  CHECK(open("train")->read(0).at("label").item<int64_t>() == 0);
  CHECK(open("train")->read(99).at("label").item<int64_t>() == 3);
}

}  // namespace bv::test
