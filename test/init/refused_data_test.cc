// Data that `bvtrain init` refuses, and its messages about it.
#include <ATen/core/Tensor.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/ckpt/formats/npz.h"
#include "lib/init/data_findings.h"
#include "lib/init/init_report.h"
#include "test/init/data_folders.h"
#include "test/init/findings.h"
#include "test/support/text.h"

namespace bv::test {

TEST_CASE("a class of which no image can be read is refused") {
  const TempFolder dir;
  write_class(dir.path(), "good", 6, 20);
  for (int i = 0; i < 30; ++i) dir.write(fmt::format("bad/{:02}.bmp", i), "BM no image");
  const std::string refused = problem(dir);
  CHECK(refused.starts_with("no image of the class 'bad' can be read (bad/00.bmp: "));
  CHECK(refused.ends_with("): convert or replace the images, or remove the class"));
  dir.write("bad/one.jpg", plain_jpeg(16, 16, 200));
  CHECK(inspect_data(dir.path()).broken_files == 30);
}

TEST_CASE("a class folder without images is refused, except in a split that is not used") {
  const TempFolder dir;
  for (const char* split : {"train", "val", "more"}) {
    write_class(dir / split, "a", 6, 20);
    write_class(dir / split, "b", 6, 200);
  }
  write_class(dir / "val", "c", 1, 100);
  dir.make("more/empty");
  DataFindings found = inspect_data(dir.path());
  CHECK_FALSE(found.any_broken());
  CHECK(counts(found) == Counts{6, 6, 0, 0});
  CHECK(contains(found.warnings[0], "class 'c' has no training images"));
  // A class without training images is not the rarest one: it has a warning.
  CHECK_FALSE(contains(findings_text(found), "not balanced"));

  dir.write("train/c/notes.txt", "x");
  dir.make("val/d");
  const std::string why =
      ": error: this class folder has no JPEG, PNG or WebP images: add images to it, or move it "
      "elsewhere";
  CHECK(problem(dir) == (dir / "train/c") + why + "\n" + (dir / "val/d") + why);
  write_class(dir / "val/d", "inner", 1, 100);
  CHECK(problem(dir) == (dir / "train/c") + why + "\n" + (dir / "val/d") +
                            ": error: the images of this class are in subfolders: move them into "
                            "the class folder itself");
}

TEST_CASE("splits without images are refused, although their empty class folders are examples") {
  const TempFolder dir;
  dir.make("train/cat");
  dir.make("train/dog");
  dir.make("val/cat");
  dir.make("val/dog");
  write_class(dir / "test", "cat", 3, 20);
  CHECK(problem(dir) == "split 'train' has no images");
  write_class(dir / "train", "cat", 3, 20);
  write_class(dir / "train", "dog", 3, 200);
  CHECK(problem(dir) == "split 'val' has no images");

  const TempFolder files;
  write_npz(files / "train.npz", sorted_arrays(3, 4));
  write_npz(files / "val.npz", sorted_arrays(3, 0));
  CHECK(problem(files) == files / "val.npz" + ": error: split 'train' has no images");

  const TempFolder turned;
  NamedTensors arrays = sorted_arrays(3, 4);
  arrays["image"] = arrays.at("label").to(at::kByte).view({-1, 1, 1, 1}).expand({-1, 3, 8, 8});
  write_npz(turned / "data.npz", arrays);
  CHECK(problem(turned) ==
        turned / "data.npz" +
            ": error: 'image' has the shape (12, 3, 8, 8), which looks like (N, channels, height, "
            "width): store it as (N, height, width, channels), by transpose(0, 2, 3, 1)");
}

TEST_CASE("data that other libraries read is named, with the page that converts it") {
  const std::string page =
      ": docs/data.md says in 'Data in other formats' how to convert such data";
  const auto named = [&](const std::vector<std::string>& files) {
    const TempFolder dir;
    for (const std::string& file : files) dir.write(file, "{}");
    return problem(dir);
  };
  const std::string saved = "is a data set of Hugging Face, as save_to_disk() writes it" + page;
  CHECK(named({"dataset_info.json", "state.json", "data-00000-of-00001.arrow"}) == saved);
  CHECK(named({"dataset_dict.json", "train/dataset_info.json", "train/state.json"}) == saved);
  CHECK(named({"README.md", "data/train-00000-of-00001.parquet"}) ==
        "holds parquet files, which bvtrain does not read" + page);
  CHECK(named({"batches.meta", "data_batch_1", "test_batch"}) ==
        "holds CIFAR-10 for Python" + page);
  CHECK(named({"meta", "train", "test"}) == "holds CIFAR-100 for Python" + page);
}

TEST_CASE("folders without usable data are refused in one line") {
  const TempFolder dir;
  CHECK(problem(dir, "none") == "no such folder");
  CHECK(problem(dir) == "is empty");
  dir.write("1.jpg", plain_jpeg(8, 8, 9));
  CHECK(problem(dir, "1.jpg") == "is a file; give the folder that holds the data");
  dir.write("my lists/t.csv", "image,label\n");
  CHECK(problem(dir, "my lists/t.csv") ==
        "is a file; give its folder: bvtrain init '" + dir.path() + "/my lists'");
  std::filesystem::remove_all(dir / "my lists");
  CHECK(
      problem(dir) ==
      "has 1 image, but no class folders: move the images of each class into a separate folder, " +
          dir.path() + "/<class>/*.jpg");
  std::filesystem::rename(dir / "1.jpg", dir / "notes.txt");
  CHECK(problem(dir) ==
        "has no data that can be trained on; expected the binary files of CIFAR (data_batch_1.bin "
        "or train.bin), or a CSV file with the columns image and label, or IDX files "
        "(train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz]), or one folder of JPEG, "
        "PNG or WebP images for each class, or a jsonl file with the keys image and label, or an "
        "npz file with the arrays image and label, or a data set of TFDS: dataset_info.json and "
        "features.json, or tar files whose samples have an image and a class, 000.jpg with "
        "000.cls");
  write_class(dir.path(), "cat", 5, 20);
  CHECK(problem(dir) == "has images of one class only, 'cat': a classifier needs at least two");
  write_class(dir.path(), "dog", 5, 20);
  write_idx(dir.path(), "train", 9);
  CHECK(problem(dir) ==
        "holds data of several kinds (IDX files, as of MNIST; image folder, <class>/<file>): move "
        "them into separate folders");

  const TempFolder utf16;
  utf16.write("l.csv", std::string("\xFF\xFE"
                                   "i\0",
                                   4));
  CHECK(contains(problem(utf16), "; l.csv is UTF-16 text: save the file as UTF-8"));

  const TempFolder flat;
  write_class(flat.path(), "train", 5, 20);
  write_class(flat.path(), "test", 5, 20);
  CHECK(problem(flat) ==
        "has images directly in test, train, without class folders: move the images of each class "
        "into a separate folder, test/<class>/*.jpg");
  // Other folders do not make classes of them.
  write_class(flat.path(), "samples", 2, 20);
  CHECK(contains(problem(flat), "has images directly in test, train, without class folders"));
  const TempFolder valid;
  write_class(valid.path(), "Train", 5, 20);
  write_class(valid.path(), "valid", 5, 20);
  CHECK(contains(problem(valid), "has images directly in Train, valid, without class folders"));
  // As on Kaggle: a CSV file has the classes.
  const TempFolder kaggle;
  write_class(kaggle.path(), "test_images", 5, 20);
  write_class(kaggle.path(), "train_images", 5, 20);
  kaggle.write("train.csv", "id,breed\n0,cat\n");
  CHECK(problem(kaggle) ==
        "has images directly in test_images, train_images, without class folders: move the images "
        "of each class into a separate folder, test/<class>/*.jpg; if train.csv has the classes, "
        "write a config with `name: csv` and its keys `path`, `label` and `folder`");
  // As Hugging Face and Roboflow have it: each split has a list.
  flat.write("train/metadata.csv", "file_name,label\n0.jpg,cat\n");
  flat.write("test/metadata.csv", "file_name,label\n0.jpg,cat\n");
  CHECK(
      problem(flat).ends_with("test/<class>/*.jpg; if train/metadata.csv has the labels, use that "
                              "folder: bvtrain init " +
                              flat / "train"));
  valid.write("valid/_classes.csv", "filename,cat,dog\n");
  CHECK(contains(problem(valid), "; if valid/_classes.csv has the labels, use that folder: "));
  const TempFolder sets;
  for (const char* name : {"cats", "dogs"}) {
    write_class(sets / "training_set", name, 5, 20);
    write_class(sets / "test_set", name, 2, 20);
  }
  CHECK(problem(sets) ==
        fmt::format("holds no data itself, but several of its folders do, such as '{0}/test_set' "
                    "and '{0}/training_set': rename them to 'test' and 'train' if they are splits",
                    sets.path()));
  const TempFolder deep;
  for (const char* name : {"cats", "dogs"}) write_class(deep / name, "images", 5, 20);
  CHECK(problem(deep).ends_with(": if they are classes, move their images directly into them"));
  const TempFolder tiny;  // as Tiny-ImageNet
  for (const char* name : {"n01", "n02"}) write_class(tiny / "train/" + name, "images", 5, 20);
  write_class(tiny / "val", "images", 5, 20);
  CHECK(problem(tiny) ==
        "split 'train' has no images, but folders in its class folders: images must be "
        "directly in the class folders");
  // A class among others may have such a name.
  const TempFolder stations;
  write_class(stations.path(), "bus station", 5, 20);
  write_class(stations.path(), "train station", 5, 200);
  CHECK(inspect_data(stations.path()).classes.size() == 2);
  const TempFolder classes;
  write_class(classes.path(), "test", 5, 20);
  write_class(classes.path(), "text", 5, 200);
  CHECK(inspect_data(classes.path()).classes.size() == 2);

  // Classes next to a split would be left out.
  const TempFolder mixed;
  for (const char* name : {"cat", "dog"}) {
    write_class(mixed.path(), name, 5, 20);
    write_class(mixed / "Test", name, 2, 20);
  }
  CHECK(contains(
      problem(mixed),
      fmt::format(
          "error: '{0}/cat' holds images, but '{0}/Test' holds class folders; move what is for "
          "training into {0}/train/<class>",
          mixed.path())));
  for (const char* name : {"cat", "dog"}) std::filesystem::remove_all(mixed / name);
  CHECK(problem(mixed) == "has no split 'train', only Test; rename the one for training");

  const TempFolder outer;
  write_class(outer / "archive/photos", "cat", 2, 20);
  CHECK(problem(outer, "archive") ==
        fmt::format("holds no data itself (did you mean '{0}/archive/photos'?)", outer.path()));
  // It is ambiguous which of the two is meant.
  write_class(outer / "archive/birds", "wren", 2, 20);
  CHECK(problem(outer, "archive") ==
        fmt::format("holds no data itself, but several of its folders do, such as "
                    "'{0}/archive/birds' and '{0}/archive/photos': if they are classes, move their "
                    "images directly into them",
                    outer.path()));
  write_class(outer / "two", "a", 1, 20);
  write_class(outer / "two", "b", 1, 20);
  CHECK(problem(outer, "two") == "has 2 images, too few to train and to validate on");
}

}  // namespace bv::test
