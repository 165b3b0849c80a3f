// Image folders and image files that are refused, and the notes on what a folder holds besides.
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lib/input/data_notes.h"
#include "lib/input/image/image_file_problem.h"
#include "lib/input/pipeline.h"
#include "lib/input/sources/common/folder_index.h"
#include "test/input/cached_image_folder.h"
#include "test/input/lists.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/golden.h"
#include "test/support/image_files.h"

namespace bv::test {

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

TEST_CASE("broken files of a large class folder are listed in order", "[image_folder]") {
  const CachedImageFolder folder;
  const std::string good = flat_jpeg(100);
  for (int i = 0; i < 600; ++i)
    folder.write(fmt::format("cat/{:03}.jpg", i), i % 250 == 10 ? "" : good);
  folder.make("dog");
  folder.write("elk/1.jpg", "");
  const auto empty = [&](const std::string& name) {
    return (folder / name) + ": error: the file is empty\n";
  };
  CHECK(folder.problem() == empty("cat/010.jpg") + empty("cat/260.jpg") + empty("cat/510.jpg") +
                                (folder / "dog") + ": error: class 'dog' has no images\n" +
                                (folder / "elk/1.jpg") + ": error: the file is empty");
  const FolderIndex index(folder.path(), {"cat", "dog", "elk"}, /*keep_broken=*/true);
  REQUIRE(index.size() == 602);
  for (int64_t i = 0; i < 600; ++i) CHECK(index.file(i) == fmt::format("{:03}.jpg", i));
  for (int i = 0; i < 600; ++i) folder.write(fmt::format("cat/{:03}.jpg", i), "");
  CHECK_THAT(folder.problem(), Catch::EndsWith("\n... and 582 more"));
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
  const auto opened = [&](std::optional<FolderIndex>& index) {
    return opens_of(folder / "train/cat/1.jpg", [&] { index.emplace(folder / "train", classes); });
  };
  std::optional<FolderIndex> built, cached;
  CHECK(opened(built) > 0);
  REQUIRE(opened(cached) == 0);
  CHECK(cached->notes().images == 4);
  CHECK(cached->notes().turned == 2);
  CHECK(cached->notes().inner_folders == 1);
  CHECK(cached->notes().other_types == built->notes().other_types);
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
