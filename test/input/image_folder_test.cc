#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <thread>

#include "lib/config/load_config.h"
#include "lib/input/data_notes.h"
#include "lib/input/image/decode.h"
#include "lib/input/image/image_file_problem.h"
#include "lib/input/image/jpeg.h"
#include "lib/input/prepare_data.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/util/rng.h"
#include "test/input/lists.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/golden.h"
#include "test/support/image_files.h"

namespace bv::test {
namespace {

// An image folder with its own cache.
struct CachedImageFolder : TempFolder {
  CachedImageFolder() { setenv("XDG_CACHE_HOME", cache.path().c_str(), 1); }
  ~CachedImageFolder() { unsetenv("XDG_CACHE_HOME"); }

  std::shared_ptr<const Dataset> open_data(const std::string& rest = "") const {
    return from_yaml("name: image_folder\ndata_dir: " + path() + "\n" + rest,
                     [](const Config& config) { return prepare_data(config, {}); })(std::nullopt);
  }
  std::string problem(const std::string& rest = "") const {
    return error_of([&] { open_data(rest); });
  }
  std::vector<std::string> files(const std::string& rest = "") const {
    const auto data = open_data(rest);
    std::vector<std::string> names;
    for (int64_t i = 0; i < data->size(); ++i) names.push_back(data->describe(i));
    return names;
  }
  std::string index_file() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path())) {
      if (entry.is_regular_file()) return entry.path();
    }
    return "";
  }

  TempFolder cache;
};

}  // namespace

TEST_CASE("root/class: one split, sorted by bytes", "[image_folder]") {
  const CachedImageFolder folder;
  for (const char* name : {"dog/b.jpg", "dog/B.JPEG", "cat/10.jpg", "cat/9.jpg", "Zebra/x.Jpg"}) {
    folder.write(name, flat_jpeg(100));
  }
  folder.write("cat/notes.txt", "not an image");
  folder.write("cat/.hidden.jpg", "");
  folder.write(".git/x.jpg", "");
  folder.write("README", "");
  CHECK(folder.files() ==
        Names{"Zebra/x.Jpg", "cat/10.jpg", "cat/9.jpg", "dog/B.JPEG", "dog/b.jpg"});
  const auto data = folder.open_data();
  CHECK(data->source().class_names() == Names{"Zebra", "cat", "dog"});
  CHECK(data->source().splits() == Names{"train"});
  CHECK_FALSE(data->is_array());
  CHECK(data->read(1).at("label").item<int64_t>() == 1);
  CHECK(data->read(4).at("label").item<int64_t>() == 2);
  const at::Tensor bytes = data->read(3).at("image");
  CHECK(std::string(reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                    bytes.numel()) == flat_jpeg(100));
}

TEST_CASE("root/split/class: the classes are those of all splits", "[image_folder]") {
  const CachedImageFolder folder;
  for (const char* name : {"train/cat/1.jpg", "train/dog/1.jpg", "val/ant/1.jpg", "val/dog/1.jpg",
                           "extra/dog/1.jpg"}) {
    folder.write(name, flat_jpeg(100));
  }
  folder.make("docs");
  const auto val = folder.open_data("split: val");
  CHECK(val->source().splits() == Names{"extra", "train", "val"});
  CHECK(val->source().class_names() == Names{"ant", "cat", "dog"});
  CHECK(folder.files("split: val") == Names{"val/ant/1.jpg", "val/dog/1.jpg"});
  CHECK(val->read(1).at("label").item<int64_t>() == 2);
  CHECK(folder.files("split: val+extra").size() == 3);
  CHECK_THAT(folder.problem("split: test"), Catch::Contains("unknown split 'test'") &&
                                                Catch::Contains("known: extra, train, val"));
}

TEST_CASE("what is written into an image folder becomes a class, but not everywhere",
          "[image_folder]") {
  const TempFolder folder;
  folder.write("f/cat/1.jpg", flat_jpeg(100));
  folder.write("f/train/dog/1.jpg", flat_jpeg(100));
  std::filesystem::create_symlink("f", folder / "link");
  const std::string data = folder / "f";
  for (const char* name : {"f", "f/", "f/./", "f/out", "f/out/run/", "link/out", "f/train",
                           "f/train/out", "g/../f/out"}) {
    INFO(name);
    CHECK(adds_classes(folder / name, data));
    CHECK(adds_classes(folder / name, data + "/"));
  }
  CHECK(adds_classes(folder / "f/out", folder / "link"));
  // Hidden folders, and folders inside class folders, are not read.
  for (const char* name :
       {".", "out", "f2", "f/../out", "f/.runs/a", "f/cat", "f/cat/out", "f/train/dog/out"}) {
    INFO(name);
    CHECK_FALSE(adds_classes(folder / name, data));
  }
  CHECK_FALSE(adds_classes(folder / "none/out", folder / "none"));  // generated data
}

TEST_CASE("splits have usual names, in any case", "[image_folder]") {
  const CachedImageFolder folder;
  for (const char* name : {"Train/cat/1.jpg", "Train/dog/1.jpg", "valid/cat/1.jpg"})
    folder.write(name, flat_jpeg(100));
  const auto data = folder.open_data("split: Train");
  CHECK(data->source().splits() == Names{"Train", "valid"});
  CHECK(data->source().class_names() == Names{"cat", "dog"});
  CHECK(is_split_name("VAL"));
  CHECK(is_split_name("testing"));
  CHECK_FALSE(is_split_name("trains"));
  CHECK_FALSE(is_split_name(""));
}

TEST_CASE("slices of a folder mix the classes", "[image_folder]") {
  const CachedImageFolder folder;
  for (const char* name : {"ant", "bee", "cat", "dog"}) {
    for (int i = 0; i < 25; ++i) folder.write(fmt::format("{}/{:02}.jpg", name, i), flat_jpeg(100));
  }
  const Names first = folder.files("split: 'train[:80%]'");
  const Names rest = folder.files("split: 'train[80%:]'");
  std::set<std::string> together(first.begin(), first.end());
  together.insert(rest.begin(), rest.end());
  CHECK(first.size() == 80);
  CHECK(rest.size() == 20);
  CHECK(together.size() == 100);
  CHECK(folder.open_data("split: 'train[:80%]'")->missing_classes().empty());
  // Three images have at most three of the four classes.
  CHECK_THAT(folder.open_data("split: 'train[:3]'")->missing_classes(),
             Catch::StartsWith("split 'train[:3]' has no example of "));
}

TEST_CASE("the index is cached until a folder changes", "[image_folder]") {
  const CachedImageFolder folder;
  folder.write("cat/1.jpg", flat_jpeg(100));
  folder.write("dog/1.jpg", flat_jpeg(100));
  const Names classes = {"cat", "dog"};

  // A folder that has just changed may change again with the same time stamp, so nothing is cached.
  CHECK_FALSE(FolderIndex(folder.path(), classes).from_cache());
  CHECK(folder.index_file().empty());

  folder.age();
  CHECK_FALSE(FolderIndex(folder.path(), classes).from_cache());
  CHECK_FALSE(folder.index_file().empty());
  CHECK(FolderIndex(folder.path(), classes).from_cache());
  const Names before = folder.files();

  // Files are not read again, so the checks of their beginnings and ends are not repeated ...
  folder.write("cat/1.jpg", "broken");
  CHECK(FolderIndex(folder.path(), classes).from_cache());
  CHECK(folder.files() == before);
  // ... until a file is added.
  folder.write("cat/2.jpg", flat_jpeg(100));
  CHECK(folder.problem() ==
        (folder / "cat/1.jpg") +
            ": error: not a JPEG, PNG or WebP image: it begins with 62 72 6F 6B");
  folder.write("cat/1.jpg", flat_jpeg(100));
  CHECK(folder.files() == Names{"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"});

  // A new class, and one that was deleted.
  folder.age();
  CHECK(folder.files().size() == 3);
  folder.write("ant/1.jpg", flat_jpeg(100));
  CHECK(folder.files() == Names{"ant/1.jpg", "cat/1.jpg", "cat/2.jpg", "dog/1.jpg"});
  std::filesystem::remove_all(folder / "cat");
  CHECK(folder.files() == Names{"ant/1.jpg", "dog/1.jpg"});
}

TEST_CASE("a class folder that is replaced by one of the same time is listed again",
          "[image_folder]") {
  const CachedImageFolder folder;
  folder.write("cat/1.jpg", flat_jpeg(100));
  folder.write("dog/1.jpg", flat_jpeg(100));
  folder.age();
  CHECK(folder.files() == Names{"cat/1.jpg", "dog/1.jpg"});
  const auto time = std::filesystem::last_write_time(folder / "cat");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // for another change time
  std::filesystem::remove_all(folder / "cat");
  folder.write("cat/1.jpg", flat_jpeg(100));
  folder.write("cat/2.jpg", flat_jpeg(100));
  std::filesystem::last_write_time(folder / "cat", time);
  CHECK(folder.files() == Names{"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"});
}

TEST_CASE("skip_errors keeps broken files in the index", "[image_folder]") {
  const CachedImageFolder folder;
  folder.write("cat/1.jpg", flat_jpeg(100));
  folder.write("cat/2.jpg", "broken");
  folder.write("dog/1.jpg", flat_jpeg(100));
  folder.age();
  const Names classes = {"cat", "dog"};
  const FolderIndex kept(folder.path(), classes, true);
  CHECK(kept.size() == 3);
  CHECK(kept.file(1) == "2.jpg");
  CHECK(FolderIndex(folder.path(), classes, true).from_cache());
  // Even if it is cached, a run without skip_errors does not use this index.
  CHECK_THROWS_WITH(FolderIndex(folder.path(), classes, false),
                    Catch::Contains("cat/2.jpg: error: not a JPEG, PNG or WebP image"));
}

TEST_CASE("skip_errors makes a class folder without images an example that fails",
          "[image_folder]") {
  const CachedImageFolder folder;
  folder.write("cat/1.jpg", flat_jpeg(100));
  folder.make("dog");
  folder.write("elk/1.jpg", flat_jpeg(100));
  folder.age();
  const auto open = [&](bool keep_broken, const std::string& section) {
    DataEnv env;
    env.source.keep_broken = keep_broken;
    env.skip_section = section;
    return from_yaml("name: image_folder\ndata_dir: " + folder.path(),
                     [&](const Config& config) { return prepare_data(config, env); })(std::nullopt);
  };
  for (const bool cached : {false, true}) {
    INFO(cached);
    const auto data = open(true, "input");
    CHECK(FolderIndex(folder.path(), {"cat", "dog", "elk"}, true).from_cache());
    REQUIRE(data->size() == 3);
    CHECK(data->describe(1) == "dog/");
    CHECK(error_of([&] { data->read(1); }, Exit::data) == "no images in this class folder");
    CHECK(data->describe(2) == "elk/1.jpg");
    CHECK(data->read(2).at("label").item<int64_t>() == 2);
  }
  // Even if it is cached, a run without skip_errors does not use this index.
  CHECK(error_of([&] { open(false, "evals.test"); }) ==
        (folder / "dog") +
            ": error: class 'dog' has no images (evals.test.skip_errors: N skips up to N such "
            "examples)");
  folder.write("cat/2.jpg", "");
  CHECK(error_of([&] { open(false, "input"); }) ==
        (folder / "cat/2.jpg") + ": error: the file is empty\n" + (folder / "dog") +
            ": error: class 'dog' has no images (input.skip_errors: N skips up to N such "
            "examples)");
}

TEST_CASE("a broken index is built again", "[image_folder]") {
  const CachedImageFolder folder;
  for (int i = 0; i < 5; ++i) folder.write(fmt::format("cat/{}.jpg", i), flat_jpeg(100));
  folder.age();
  const Names classes = {"cat"};
  CHECK_FALSE(FolderIndex(folder.path(), classes).from_cache());
  const std::string file = folder.index_file();
  const std::string good = read_text(file);
  const Names names = folder.files();
  Rng rng(1, Purpose::synthetic, 0);
  for (int i = 0; i < 200; ++i) {
    std::string bad = good;
    bad[rng.below(static_cast<int64_t>(bad.size()))] ^= static_cast<char>(1 + rng.below(255));
    if (i % 4 == 0) bad.resize(rng.below(static_cast<int64_t>(bad.size())));
    std::ofstream(file, std::ios::binary) << bad;
    CHECK_FALSE(FolderIndex(folder.path(), classes).from_cache());
    CHECK(read_text(file) == good);
  }
  // Wrong content with a correct checksum.
  for (const std::string& payload :
       {std::string("bvtrain image folder 3"), std::string(""), std::string(100, '\0')}) {
    std::ofstream(file, std::ios::binary) << fmt::format("{:016x}\n", hash64(payload)) << payload;
    CHECK(folder.files() == names);
  }
}

TEST_CASE("a cache that cannot be written does no harm", "[image_folder]") {
  const CachedImageFolder folder;
  folder.write("cat/1.jpg", flat_jpeg(100));
  folder.age();
  const std::string file = folder.cache.write("file", "");
  setenv("XDG_CACHE_HOME", file.c_str(), 1);
  CHECK(folder.files() == Names{"cat/1.jpg"});
}

TEST_CASE("broken folders", "[image_folder]") {
  const CachedImageFolder folder;
  CHECK(folder.problem() == "t.yaml:2:11: error: no class folders in '" + folder.path() +
                                "': expected <class>/*.jpg or <split>/<class>/*.jpg");
  const std::string good = flat_jpeg(100);
  folder.write("train/cat/1.jpg", good);
  folder.make("train/dog");
  CHECK(folder.problem() == (folder / "train/dog") + ": error: class 'dog' has no images");
  folder.write("train/dog/17.jpg", good.substr(0, good.size() - 2));
  CHECK(folder.problem() ==
        (folder / "train/dog/17.jpg") +
            fmt::format(": error: not a complete JPEG: no end marker (file is {} bytes)",
                        good.size() - 2));
  // All problems together, in order.
  folder.write("train/cat/2.png", "");
  folder.write("train/cat/3.gif", "GIF89a.....");
  folder.write("train/cat/4.jpg", "version https://git-lfs.github.com/spec/v1\noid sha256:12\n");
  CHECK(folder.problem() ==
        (folder / "train/cat/2.png") + ": error: the file is empty\n" +
            (folder / "train/cat/3.gif") +
            ": error: GIF images are not supported: convert it to JPEG, PNG or WebP\n" +
            (folder / "train/cat/4.jpg") +
            ": error: this is a git-LFS pointer, not the image itself: run 'git lfs pull' where it "
            "came from\n" +
            (folder / "train/dog/17.jpg") +
            fmt::format(": error: not a complete JPEG: no end marker (file is {} bytes)",
                        good.size() - 2));
  for (int i = 0; i < 30; ++i) folder.write(fmt::format("train/ant/{:02}.jpg", i), "x");
  const std::string many = folder.problem();
  CHECK(std::count(many.begin(), many.end(), '\n') == 20);
  CHECK_THAT(many, Catch::EndsWith("\n... and 14 more"));
  // A run with such classes could not be continued.
  folder.write("train/caf\xE9/1.jpg", good);
  folder.write("val/\xFF/1.jpg", good);
  const std::string rename = ": error: the name of this class folder is not UTF-8: rename it";
  CHECK(folder.problem() ==
        (folder / "train/caf\\xe9") + rename + "\n" + (folder / "val/\\xff") + rename);
}

TEST_CASE("a file that is deleted during a run is a data error of its example", "[image_folder]") {
  const CachedImageFolder folder;
  folder.write("cat/1.jpg", flat_jpeg(100));
  const auto data = folder.open_data();
  std::filesystem::remove(folder / "cat/1.jpg");
  CHECK(error_of([&] { data->read(0); }, Exit::data) == "can't be read: no such file");
  REQUIRE(::mkfifo((folder / "cat/1.jpg").c_str(), 0666) == 0);
  CHECK(error_of([&] { data->read(0); }, Exit::data) == "can't be read: is a pipe, not a file");
  CHECK(folder.problem() == (folder / "cat/1.jpg") + ": error: is a pipe, not a file");
}

TEST_CASE("incomplete image files are noticed", "[image_folder]") {
  const TempFolder temp;
  const auto of = [&](const std::string& content) {
    return check_image_file(temp.write("x.jpg", content)).problem;
  };
  const std::string good = flat_jpeg(100);
  CHECK(of(good).empty());
  // A long comment before the frame header and megabytes after the end marker are accepted.
  const std::string comment = std::string("\xFF\xFE\xFF\xFF", 4) + std::string(65533, 'c');
  CHECK(of(good.substr(0, 2) + comment + comment + good.substr(2)).empty());
  CHECK(of(good + std::string(100000, 'm')).empty());
  // Stray bytes between segments are accepted, but not without end: a file may have holes.
  const size_t second = 4 + static_cast<uint8_t>(good[4]) * 256 + static_cast<uint8_t>(good[5]);
  const auto with_stray = [&](size_t count) {
    return of(good.substr(0, second) + std::string(count, 's') + good.substr(second));
  };
  CHECK(with_stray(5000).empty());
  CHECK(with_stray(100'000).empty());
  CHECK(with_stray((size_t{1} << 24) + 100) ==
        fmt::format("not a valid JPEG: no marker at byte {}", second));
  const std::string holes = temp.write("holes.jpg", std::string("\xFF\xD8\xFF", 3));
  std::filesystem::resize_file(holes, uintmax_t{1} << 30);
  CHECK(check_image_file(holes).problem ==
        "not a complete JPEG: no frame header (file is 1073741824 bytes)");
  std::filesystem::resize_file(holes, uintmax_t{1} << 40);
  CHECK(check_image_file(holes).problem == "1099511627776 bytes are more than the limit of 1 GiB");
  // The end marker of a thumbnail in an APP1 segment does not count.
  const std::string thumbnail = std::string("\xFF\xE1\x00\x06\xFF\xD9zz", 8);
  CHECK(of(good.substr(0, 2) + thumbnail + good.substr(2)).empty());
  CHECK_THAT(of(good.substr(0, 2) + thumbnail + good.substr(2, good.size() - 4)),
             Catch::Contains("no end marker"));
  // Every shorter file is incomplete.
  for (size_t n = 0; n < good.size(); ++n) {
    if (of(good.substr(0, n)).empty()) CHECK(n == good.size());
  }
  const size_t frame = good.find("\xFF\xC0");
  REQUIRE(frame != std::string::npos);
  std::string zero = good;
  zero[frame + 5] = zero[frame + 6] = 0;
  CHECK(of(zero) ==
        "not a valid JPEG: image of 0 x 8 pixels: at most 65500 a side and 268435456 in total");
  CHECK(of(good.substr(0, 4)) == "not a complete JPEG: no frame header (file is 4 bytes)");

  const std::string file = golden_file("pp/rgba.png");
  if (file.empty()) return;
  const std::string png = read_text(file);
  CHECK(of(png).empty());
  for (size_t n = 0; n < png.size() - 8; ++n) {
    if (of(png.substr(0, n)).empty()) CHECK(n == png.size());
  }
  CHECK(of(png.substr(0, 1000)) == "not a complete PNG: no IEND chunk (file is 1000 bytes)");
  const std::string more(5000, 'm');
  CHECK(of(png + more).empty());
  CHECK(of(png.substr(0, 1000) + more) == "not a complete PNG: no IEND chunk (file is 6000 bytes)");
}

TEST_CASE("what a folder holds besides its images is counted", "[image_folder]") {
  const CachedImageFolder folder;
  const std::string turned = jpeg_with_exif(flat_jpeg(100), exif_data(6));
  const std::string webp = webp_of(at::full({4, 6, 3}, 9, at::kByte), true);
  folder.write("train/cat/1.jpg", turned);
  folder.write("train/cat/2.JPG", jpeg_with_exif(flat_jpeg(100), exif_data(1)));
  folder.write("train/cat/3.webp", webp_with_exif(webp, exif_data(3), 4, 6));
  folder.write("train/dog/1.WebP", webp);
  for (const char* other : {"cat/a.txt", "cat/b.TXT", "dog/c.csv", "dog/Makefile", "dog/.hidden"})
    folder.write(std::string("train/") + other, "no image");
  folder.write("train/dog/more/1.jpg", flat_jpeg(100));
  folder.write("train/loose.jpg", flat_jpeg(100));
  folder.write("train/notes.txt", "");
  folder.write("val/cat/1.jpg", flat_jpeg(100));
  CHECK(folder.files() ==
        Names{"train/cat/1.jpg", "train/cat/2.JPG", "train/cat/3.webp", "train/dog/1.WebP"});
  const Names rest = {
      "train: 4 files of other types were ignored (2 .txt, 1 without a usual suffix, 1 .csv)",
      "train: 1 folder inside class folders was ignored",
      "train: 1 image next to the class folders was ignored"};
  const auto with_turned = [&](const std::string& op) {
    Names lines = rest;
    lines.insert(lines.begin(), "train: the EXIF orientation of 2 of 4 images is ignored; " + op +
                                    "(exif=True) turns them upright");
    return lines;
  };
  const auto notes = [&](const std::string& split, const std::string& pp) {
    return data_notes(*folder.open_data("split: " + split), Pipeline(pp, Place{"t.yaml"}));
  };
  CHECK(notes("train", "decode|flip_lr") == with_turned("decode"));
  CHECK(notes("train", "decode_jpeg_and_inception_crop(8)") ==
        with_turned("decode_jpeg_and_inception_crop"));
  CHECK(notes("train", "decode(exif=True)|flip_lr") == rest);
  CHECK(notes("train", "decode_jpeg_and_inception_crop(8, exif=True)") == rest);
  CHECK(notes("'train[:50%]+val'", "decode") == with_turned("decode"));
  CHECK(notes("val", "decode").empty());

  // A cached index has the same counts.
  folder.age();
  const Names classes = {"cat", "dog"};
  const FolderIndex built(folder / "train", classes);
  const FolderIndex cached(folder / "train", classes);
  CHECK_FALSE(built.from_cache());
  REQUIRE(cached.from_cache());
  CHECK(cached.notes().images == 4);
  CHECK(cached.notes().turned == 2);
  CHECK(cached.notes().inner_folders == 1);
  CHECK(cached.notes().other_types == built.notes().other_types);
  CHECK(notes("train", "decode") == with_turned("decode"));
}

TEST_CASE("a link to a class folder that leads nowhere is noted", "[image_folder]") {
  const CachedImageFolder folder;
  folder.write("train/cat/1.jpg", flat_jpeg(100));
  folder.write("train/dog/1.jpg", flat_jpeg(100));
  const auto notes = [&] {
    return data_notes(*folder.open_data("split: train"), Pipeline("decode", Place{"t.yaml"}));
  };
  std::filesystem::create_directory_symlink(folder / "train/cat", folder / "train/lion");
  CHECK(notes().empty());
  std::filesystem::create_directory_symlink("/nonexistent/fox", folder / "train/fox");
  CHECK(notes() ==
        Names{"train: the link " + (folder / "train/fox") + " leads nowhere and was ignored"});
  std::filesystem::create_directory_symlink("/nonexistent/bee", folder / "train/bee");
  CHECK(notes() == Names{"train: 2 links that lead nowhere, such as " + (folder / "train/bee") +
                         ", were ignored"});
}

TEST_CASE("images that are one folder too deep are mentioned", "[image_folder]") {
  const CachedImageFolder folder;
  folder.write("train/n01/images/1.jpg", flat_jpeg(100));
  CHECK(folder.problem() == (folder / "train/n01") +
                                ": error: class 'n01' has no images, but 1 folder: images must be "
                                "directly in the class folder");
}

TEST_CASE("a list of many file types is cut short", "[image_folder]") {
  FileNotes notes;
  for (int i = 0; i < 9; ++i) notes.other_types[fmt::format(".{}", i)] = 10 - i;
  CHECK(split_notes("val", notes, Pipeline("decode", Place{"t.yaml"})) ==
        Names{"val: 54 files of other types were ignored (10 .0, 9 .1, 8 .2, 7 .3, 6 .4, 5 .5, 9 "
              "others)"});
}

}  // namespace bv::test
