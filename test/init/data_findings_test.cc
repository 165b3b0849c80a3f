// What `bvtrain init` finds in folders and lists of images: splits, classes and image sizes.
#include "lib/init/data_findings.h"

#include <ATen/core/Tensor.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/init/starter_recipe.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"
#include "test/init/data_folders.h"
#include "test/init/findings.h"
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

TEST_CASE("validation images in colour are a warning if the training images are grey") {
  const TempFolder dir;
  for (const char* name : {"a", "b"}) {
    write_class(dir / "train", name, 6, 20, 8, 8, /*colour=*/false);
    write_class(dir / "val", name, 3, 20, 8, 8, /*colour=*/true);
  }
  const DataFindings found = inspect_data(dir.path());
  CHECK(found.images.channels == 1);
  CHECK(found.warnings == Lines{"the training images are grey, but validation images are in "
                                "color: check that both are of one kind"});
  const TempFolder grey;
  for (const char* name : {"a", "b"}) {
    write_class(grey / "train", name, 6, 20, 8, 8, /*colour=*/true);
    write_class(grey / "val", name, 3, 20, 8, 8, /*colour=*/false);
  }
  CHECK(inspect_data(grey.path()).warnings.empty());  // decoding loses nothing
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
  CHECK(found.warnings == Lines{dir / "t.csv" + ": 200 rows name the same image as an earlier row; "
                                                "each row counts as an image of its own, so "
                                                "training and validation data may share images"});
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

TEST_CASE("images that the training and the validation list share are a warning") {
  for (const std::string suffix : {".csv", ".jsonl"}) {
    const TempFolder dir;
    for (int i = 0; i < 12; ++i) dir.write(fmt::format("{}.jpg", i), plain_jpeg(16, 16, 20 * i));
    const auto list = [&](const std::string& split, int first, int end) {
      std::string rows = suffix == ".csv" ? "image,label\n" : "";
      for (int i = first; i < end; ++i) {
        rows += suffix == ".csv"
                    ? fmt::format("{}{}.jpg,{}\n", split == "val" ? "./" : "", i, i % 2)
                    : fmt::format("{{\"image\": \"{}.jpg\", \"label\": {}}}\n", i, i % 2);
      }
      dir.write(split + suffix, rows);
    };
    list("train", 0, 8);
    list("val", 6, 12);
    CHECK(inspect_data(dir.path()).warnings ==
          Lines{fmt::format("{0}/val{1} has 2 images that {0}/train{1} has too, so metrics do not "
                            "show how good the model is on new images",
                            dir.path(), suffix)});
    list("val", 8, 12);
    CHECK(inspect_data(dir.path()).warnings.empty());
  }
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

}  // namespace bv::test
