// What `bvtrain init` finds in folders and lists of images, and its messages about unusable ones.
#include "lib/init/data_findings.h"

#include <ATen/core/Tensor.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/init/init_report.h"
#include "lib/init/starter_recipe.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"
#include "test/init/data_folders.h"
#include "test/init/findings.h"
#include "test/support/config.h"
#include "test/support/text.h"

namespace bv::test {

TEST_CASE(
    "class folders are divided into training and validation data, and all classes are in both") {
  const TempFolder dir;
  write_class(dir.path(), "cat", 30, 20, 40, 60);
  write_class(dir.path(), "dog", 10, 200, 50, 50);
  const DataFindings found = inspect_data(dir.path() + "/");
  CHECK(found.data.source == "image_folder");
  CHECK(found.data.kind == "image folder, <class>/<file>");
  CHECK(found.train == "train[:80%]");
  CHECK(found.validation == "train[80%:]");
  CHECK(found.sliced);
  CHECK(found.train_examples == 32);
  CHECK(found.validation_examples == 8);
  REQUIRE(counts(found) == Counts{30, 10});
  CHECK(found.classes[1].name == "dog");
  CHECK(found.rarest()->name == "dog");
  CHECK(found.imbalanced());
  CHECK(found.warnings.empty());
  CHECK(found.images.tried == 40);
  CHECK(found.images.broken.empty());
  CHECK_FALSE(found.images.equal);
  CHECK(found.images.smallest == ImageSides{40, 60});
  CHECK(found.images.largest == ImageSides{50, 50});
  CHECK(found.images.typical == ImageSides{40, 60});
  CHECK(found.images.channels == 3);
  CHECK_FALSE(found.any_broken());
}

TEST_CASE("folders train, val and test are taken as they are") {
  const TempFolder dir;
  for (const char* name : {"cat", "dog"}) {
    write_class(dir / "train", name, 6, 20);
    write_class(dir / "test", name, 3, 20);
  }
  CHECK(inspect_data(dir.path()).validation == "test");
  write_class(dir / "val", "cat", 2, 20);
  dir.write("train/cat/notes.txt", "x");
  const DataFindings found = inspect_data(dir.path());
  CHECK(found.train == "train");
  CHECK(found.validation == "val");
  CHECK(found.test == "test");
  CHECK_FALSE(found.sliced);
  CHECK_FALSE(found.imbalanced());
  CHECK(found.classes[0].validation == 2);
  CHECK(found.warnings == std::vector<std::string>{"class 'dog' has no validation images"});
  CHECK(found.notes == Lines{"train: 1 file of other types was ignored (1 .txt)"});

  write_class(dir / "more", "cat", 2, 20);
  write_class(dir.path(), "unlabelled", 2, 20);
  CHECK(inspect_data(dir.path()).notes ==
        Lines{"not used: the split 'more'", "train: 1 file of other types was ignored (1 .txt)",
              "train: the images in unlabelled were ignored, because it is not a folder of a split "
              "with class folders in it"});
}

TEST_CASE("validation images of another size count") {
  const TempFolder dir;
  write_class(dir.path(), "train/cat", 20, 20);
  write_class(dir.path(), "train/dog", 20, 200);
  write_class(dir.path(), "val/cat", 5, 20);
  write_class(dir.path(), "val/dog", 5, 200, 30, 40);
  const DataFindings found = inspect_data(dir.path());
  CHECK_FALSE(found.images.equal);
  CHECK(found.images.tried == 50);
  CHECK(size_text(found.images.smallest) == "16x16");
  CHECK(size_text(found.images.largest) == "40x30");
  CHECK(size_text(found.images.typical) == "16x16");
  CHECK(contains(choose_recipe(found, nullptr).eval_pp, "resize(16)"));
}

TEST_CASE("grey images are recognised, also if they are stored in colour") {
  const TempFolder dir;
  write_class(dir.path(), "a", 3, 20, 8, 8, /*colour=*/false);
  write_class(dir.path(), "b", 3, 200, 8, 8, /*colour=*/false);
  CHECK(inspect_data(dir.path()).images.channels == 1);
  write_class(dir.path(), "c", 1, 20, 8, 8, /*colour=*/true);
  CHECK(inspect_data(dir.path()).images.channels == 3);
}

TEST_CASE("broken files are found by their ends and by decoding") {
  const TempFolder dir;
  write_class(dir.path(), "a", 4, 20);
  write_class(dir.path(), "b", 4, 200);
  dir.write("a/cut.jpg", plain_jpeg(16, 16, 9).substr(0, 200));
  // The beginning and end are those of a PNG file, but the pixels between them are missing.
  std::string png = png_of(at::full({8, 8, 3}, 7, at::kByte));
  const size_t data = png.find("IDAT");
  png.replace(data + 4, 8, "brokenxx");
  dir.write("b/pixels.png", png);
  const DataFindings found = inspect_data(dir.path());
  CHECK(found.any_broken());
  CHECK(found.broken_files == 1);
  REQUIRE(found.broken.size() == 1);
  CHECK(contains(found.broken[0], "a/cut.jpg: error: not a complete JPEG"));
  CHECK(counts(found) == Counts{5, 5});
  REQUIRE(found.images.broken.size() == 2);
  CHECK(found.images.tried == 10);
}

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
      ": error: this class folder has no JPEG, PNG or WebP images: delete it, move it elsewhere, "
      "or add images";
  CHECK(problem(dir) == (dir / "train/c") + why + "\n" + (dir / "val/d") + why);
}

TEST_CASE("a list that is almost sorted by class is divided by folds") {
  const TempFolder dir;
  for (const char* name : {"a", "b", "c"})
    dir.write(std::string(name) + ".jpg", plain_jpeg(16, 16, name[0]));
  const auto inspect = [&](const std::string& labels) {
    std::string list = "image,label\n";
    for (const char label : labels) list += fmt::format("{0}.jpg,{0}\n", label);
    dir.write("t.csv", list);
    return inspect_data(dir.path());
  };
  const std::string a(100, 'a'), b(100, 'b');
  DataFindings found = inspect(a + b + "aa");
  CHECK(found.train == "train[not fold 1/5]");
  CHECK(found.validation == "train[fold 1/5]");
  CHECK(found.sliced);
  CHECK(found.train_examples == 161);
  CHECK(found.validation_examples == 41);
  CHECK(found.warnings.empty());
  // The last class is missing from the training slice, or the first one from the validation slice.
  CHECK(inspect("abababababababccc").train == "train[not fold 1/5]");
  CHECK(inspect("aaaaabcbcbcbcbcbcbcbcbc").train == "train[not fold 1/5]");

  // A sorted list is shuffled before it is sliced, and slices of a shuffled one are good enough.
  CHECK(inspect(a + b).train == "train[:80%]");
  std::string mixed = a + b;
  Rng rng(3, Purpose::synthetic, 0);
  for (size_t i = mixed.size() - 1; i > 0; --i)
    std::swap(mixed[i], mixed[static_cast<size_t>(rng.below(static_cast<int64_t>(i) + 1))]);
  CHECK(inspect(mixed).train == "train[:80%]");
}

TEST_CASE("a CSV file is taken if no image folder has its images, and else named as not used") {
  const TempFolder dir;
  std::string list = "image,label\n";
  for (int i = 0; i < 8; ++i) list += fmt::format("images/{0}/{1}.jpg,{0}\n", "ab"[i % 2], i / 2);
  write_class(dir / "images", "a", 4, 20);
  write_class(dir / "images", "b", 4, 90);
  dir.write("train.csv", list);
  DataFindings found = inspect_data(dir.path());
  CHECK(found.data.source == "csv");
  CHECK(found.classes.size() == 2);

  dir.write("images/train.csv", replace_all(list, "images/", ""));
  found = inspect_data(dir / "images");
  CHECK(found.data.source == "image_folder");
  REQUIRE(!found.notes.empty());
  CHECK(found.notes[0] == "not used: train.csv; the labels come from the folder names");
  for (const char* name : {"1.csv", "2.csv", "3.csv", "4.csv", "5.csv"})
    dir.write(std::string("images/") + name, "a,b\n1,2\n");
  CHECK(inspect_data(dir / "images").notes[0] ==
        "not used: 1.csv, 2.csv, 3.csv, 4.csv and 2 more; the labels come from the folder names");
  // The same folder by another name.
  dir.write("images/train.csv", replace_all(list, "images/", dir / "images/"));
  std::filesystem::create_directory_symlink(dir / "images", dir / "link");
  CHECK(inspect_data(dir / "link").data.source == "image_folder");
}

TEST_CASE("EXIF orientations and 16-bit PNG files are found in images of any source") {
  const TempFolder dir;
  std::string list = "image,label\n";
  for (int i = 0; i < 8; ++i) {
    const std::string plain = plain_jpeg(16, 16, 20 * i);
    dir.write(fmt::format("{}.jpg", i), i < 6 ? plain : jpeg_with_exif(plain, exif_data(6)));
    list += fmt::format("{}.jpg,{}\n", i, i % 2 == 0 ? "a" : "b");
  }
  dir.write("t.csv", list);
  DataFindings found = inspect_data(dir.path());
  CHECK(found.images.turned == 2);
  CHECK(found.turned);
  CHECK(found.warnings.empty());

  std::vector<uint8_t> values(2 * 64);
  values[1] = 200;
  dir.write("0.png", encode_png(values, 8, 8, SPNG_COLOR_TYPE_GRAYSCALE, /*depth=*/16));
  dir.write("t.csv", replace_all(list, "0.jpg", "0.png"));
  found = inspect_data(dir.path());
  CHECK(
      found.warnings ==
      Lines{
          "1 of 8 images in the sample is a PNG file with 16 bits per channel; decoding keeps only "
          "the upper 8 (value / 256). If that is too coarse, store the images as arrays (npz)"});
}

TEST_CASE("images that are turned upright count with their upright sizes") {
  const TempFolder dir;
  const auto inspect = [&](int turned) {
    std::string list = "image,label\n";
    for (int i = 0; i < 8; ++i) {
      const std::string plain = plain_jpeg(24, 32, 20 * i);
      dir.write(fmt::format("{}.jpg", i), i < turned ? jpeg_with_exif(plain, exif_data(6)) : plain);
      list += fmt::format("{}.jpg,{}\n", i, i % 2 == 0 ? "a" : "b");
    }
    dir.write("t.csv", list);
    return inspect_data(dir.path());
  };
  const DataFindings half = inspect(4);
  CHECK_FALSE(half.images.equal);
  CHECK(contains(choose_recipe(half, nullptr).train_pp, "resize("));
  const DataFindings all = inspect(8);
  CHECK(all.images.equal);
  CHECK(all.images.typical == ImageSides{32, 24});
}

TEST_CASE("a validation list of numbers is counted by the class names of the training list") {
  const TempFolder dir;
  dir.write("x.jpg", plain_jpeg(16, 16, 20));
  const auto list = [&](const std::string& name, const Lines& labels) {
    std::string text = "image,label\n";
    for (const std::string& label : labels) text += "x.jpg," + label + "\n";
    dir.write(name, text);
  };
  list("train.csv", {"0", "1", "10", "2", "other"});
  list("val.csv", {"2", "10", "2"});
  const DataFindings found = inspect_data(dir.path());
  REQUIRE(found.classes.size() == 5);
  CHECK(found.classes[2].name == "10");
  CHECK(found.classes[2].validation == 1);
  CHECK(found.classes[3].validation == 2);
}

TEST_CASE("regression is mentioned if a list may hold numbers to predict") {
  const TempFolder dir;
  for (int i = 0; i < 6; ++i) dir.write(fmt::format("img/{}.jpg", i), plain_jpeg(16, 16, 20 * i));
  const auto list = [&](const std::string& column, const std::vector<int>& values) {
    std::string text = "image," + column + "\n";
    for (size_t i = 0; i < values.size(); ++i)
      text += fmt::format("img/{}.jpg,{}\n", i % 6, values[i]);
    dir.write("list.csv", text);
  };
  list("label", {0, 1, 3, 0, 1, 3});
  CHECK(inspect_data(dir.path()).notes.empty());
  list("label", {1, 2, 1, 2, 2, 1});
  const DataFindings from_1 = inspect_data(dir.path());
  CHECK(contains(join(from_1.warnings, "\n"),
                 "the labels begin at 1: class '0' has no training images"));
  CHECK_FALSE(from_1.imbalanced());
  list("label", {0, 1, 0, 17, 17, 59});
  CHECK(inspect_data(dir.path()).notes ==
        Lines{"the labels are integers up to 59 and are taken as classes, 56 of them without "
              "training images; to predict numbers, use --task regress"});
  std::string rows;  // more than the detector reads
  for (int i = 0; i < 9000; ++i) rows += fmt::format("img/{}.jpg,{}\n", i % 6, i % 3);
  dir.write("list.csv", "image,label\n" + rows + "img/0.jpg,1.5\n");
  CHECK(problem(dir) == (dir / "list.csv") +
                            ": error: has labels that are not integers, which are regression "
                            "targets: add --task regress");
  list("age", {17, 20, 59, 17, 30, 2});
  const std::string hint =
      "; list.csv has no column 'label'; its other column is age: choose with --label age; add "
      "--task regress if it holds numbers, or --task multilabel if an image may have several "
      "classes";
  CHECK(problem(dir) ==
        "has images of one class only, 'img': a classifier needs at least two" + hint);
  dir.write("list.csv", "img/0.jpg,3\nimg/1.jpg,4\n");
  CHECK(contains(problem(dir), "; list.csv cannot be used: the first line names the file"));
  dir.write("list.csv", "id,breed\n0,cat\n");
  CHECK(contains(problem(dir), "; list.csv cannot be used: no column is called image, path"));
  dir.write("list.csv", "Image,Label\n0.jpg,cat\n");
  CHECK(contains(problem(dir),
                 fmt::format("; list.csv names '0.jpg', which is not in {0}; it is in img/: write "
                             "a config with `name: csv` and `folder: {0}/img`",
                             dir.path())));
  dir.write("flat/1.jpg", plain_jpeg(16, 16, 20));
  dir.write("flat/list.csv", "image,age\n1.jpg,5\n");
  CHECK(contains(problem(dir, "flat"), "/<class>/*.jpg" + hint));
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

TEST_CASE("splits have other usual names, in any case") {
  const TempFolder dir;
  for (const char* name : {"cat", "dog"}) {
    write_class(dir / "Training", name, 6, 20);
    write_class(dir / "Testing", name, 3, 20);
  }
  DataFindings found = inspect_data(dir.path());
  CHECK(found.train == "Training");
  CHECK(found.validation == "Testing");
  CHECK(found.test.empty());
  write_class(dir / "valid", "cat", 2, 20);
  found = inspect_data(dir.path());
  CHECK(found.validation == "valid");
  CHECK(found.test == "Testing");
}

TEST_CASE("links that lead nowhere do not hide the data beside them") {
  const TempFolder dir;
  write_class(dir.path(), "cat", 5, 20);
  write_class(dir.path(), "dog", 5, 200);
  for (const char* name : {"x.csv", "x.jsonl", "x.npz", "x.tar", "x"})
    std::filesystem::create_symlink(name, dir / name);
  CHECK(counts(inspect_data(dir.path())) == Counts{5, 5});
  std::filesystem::remove_all(dir / "cat");
  std::filesystem::remove_all(dir / "dog");
  CHECK(problem(dir).starts_with("has no data that can be trained on; expected "));
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
