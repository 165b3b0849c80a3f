// Image folders: their splits, classes and slices, and the cached index.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "lib/input/prepare_data.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/util/rng.h"
#include "test/input/cached_image_folder.h"
#include "test/input/lists.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"
#include "test/support/stopped.h"

namespace bv::test {

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
  CHECK_FALSE(folder.index_was_cached(classes));
  CHECK(folder.index_file().empty());

  folder.age();
  CHECK_FALSE(folder.index_was_cached(classes));
  CHECK_FALSE(folder.index_file().empty());
  CHECK(folder.index_was_cached(classes));
  const Names before = folder.files();

  // Files are not read again, so the checks of their beginnings and ends are not repeated ...
  folder.write("cat/1.jpg", "broken");
  CHECK(folder.index_was_cached(classes));
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
  CHECK(folder.index_was_cached(classes, true));
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
    CHECK(folder.index_was_cached({"cat", "dog", "elk"}, true));
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

TEST_CASE("a signal ends the scan of a large class folder", "[image_folder]") {
  const CachedImageFolder folder;
  const std::string image = flat_jpeg(100);
  for (int i = 0; i < 3000; ++i) folder.write(fmt::format("cat/{}.jpg", i), image);
  CHECK(stops_early([&] { FolderIndex(folder.path(), {"cat"}); }));
}

TEST_CASE("a broken index is built again", "[image_folder]") {
  const CachedImageFolder folder;
  for (int i = 0; i < 5; ++i) folder.write(fmt::format("cat/{}.jpg", i), flat_jpeg(100));
  folder.age();
  const Names classes = {"cat"};
  CHECK_FALSE(folder.index_was_cached(classes));
  const std::string file = folder.index_file();
  const std::string good = read_text(file);
  const Names names = folder.files();
  Rng rng(1, Purpose::synthetic, 0);
  for (int i = 0; i < 200; ++i) {
    std::string bad = good;
    bad[rng.below(static_cast<int64_t>(bad.size()))] ^= static_cast<char>(1 + rng.below(255));
    if (i % 4 == 0) bad.resize(rng.below(static_cast<int64_t>(bad.size())));
    std::ofstream(file, std::ios::binary) << bad;
    CHECK_FALSE(folder.index_was_cached(classes));
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

}  // namespace bv::test
