#include "lib/input/sources/common/idx.h"

#include <ATen/ops/tensor.h>
#include <libdeflate.h>

#include <catch2/catch.hpp>

#include "lib/input/prepare_data.h"
#include "lib/util/rng.h"
#include "test/init/data_folders.h"
#include "test/input/open_data.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

std::string gzip(const std::string& text) {
  libdeflate_compressor* codec = libdeflate_alloc_compressor(6);
  std::string out(libdeflate_gzip_compress_bound(codec, text.size()), '\0');
  out.resize(libdeflate_gzip_compress(codec, text.data(), text.size(), out.data(), out.size()));
  libdeflate_free_compressor(codec);
  return out;
}

std::string image_error(const std::string& file) {
  return error_of([&] { read_idx_images(file); });
}
std::string label_error(const std::string& file) {
  return error_of([&] { read_idx_labels(file); });
}

}  // namespace

TEST_CASE("embedded digits are the committed files", "[idx]") {
  const auto test = open_data("{name: digits, split: test}");
  CHECK(test->read(0).at("image").sizes() == at::IntArrayRef({8, 8, 1}));
  std::vector<int> count(10);
  for (int64_t i = 0; i < test->size(); ++i) ++count.at(test->read(i).at("label").item<int64_t>());
  CHECK(count == std::vector<int>(10, 36));  // sources/digits/README.md
  const std::string folder = BV_SOURCE_DIR "/lib/input/sources/digits/";
  for (const std::string split : {"train", "test"}) {
    const auto embedded = open_data("{name: digits, split: " + split + "}");
    const auto files = open_data("{name: idx, data_dir: " + folder + ", split: " + split + "}");
    REQUIRE(embedded->size() == files->size());
    std::vector<int64_t> all(embedded->size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    CHECK(embedded->read_batch(all).at("image").equal(files->read_batch(all).at("image")));
    CHECK(embedded->read_batch(all).at("label").equal(files->read_batch(all).at("label")));
  }
}

TEST_CASE("IDX files, plain and gzipped, of rank 3 and 4", "[idx]") {
  const TempFolder temp;
  const std::string plain = idx_file({2, 1, 3}, "abcdef");
  const at::Tensor images = read_idx_images(temp.write("a", plain));
  CHECK(images.sizes() == at::IntArrayRef({2, 1, 3, 1}));
  CHECK(images[1][0][2][0].item<int64_t>() == 'f');
  CHECK(read_idx_images(temp.write("a.gz", gzip(plain))).equal(images));
  // The content determines the format, not the suffix: browsers unpack files and keep the name.
  CHECK(read_idx_images(temp.write("b.gz", plain)).equal(images));
  CHECK(read_idx_images(temp.write("c", idx_file({1, 1, 2, 3}, "abcdef"))).sizes() ==
        at::IntArrayRef({1, 1, 2, 3}));
  CHECK(read_idx_labels(temp.write("d", idx_file({3}, "\1\2\xFF")))
            .equal(at::tensor({1, 2, 255}, at::kLong)));
}

TEST_CASE("splits are the files that exist", "[idx]") {
  const TempFolder temp;
  temp.write("t10k-images-idx3-ubyte.gz", gzip(idx_file({4, 1, 1}, "abcd")));
  temp.write("t10k-labels-idx1-ubyte", idx_file({4}, std::string("\0\1\0\1", 4)));
  const std::string section = "{name: idx, data_dir: " + temp.path();
  CHECK(open_data(section + ", split: 'test[:3]'}")->size() == 3);
  CHECK_THAT(error_of([&] { open_data(section + "}"); }),
             Catch::Contains("unknown split 'train'") && Catch::Contains("known: test"));
  // A slice that lacks a class.
  CHECK(open_data(section + ", split: 'test[:1]', class_names: [cat, dog]}")->missing_classes() ==
        "split 'test[:1]' has no example of 1 of the 2 classes: dog");
  CHECK(error_of([&] { open_data(section + ", split: test, class_names: [cat]}"); }) ==
        (temp / "t10k-labels-idx1-ubyte") +
            ": error: label 1 in row 1, but class_names has 1 names");
  // Two files, given by name.
  const auto named = open_data("{name: idx, images: " + (temp / "t10k-images-idx3-ubyte.gz") +
                               ", labels: " + (temp / "t10k-labels-idx1-ubyte") + "}");
  CHECK(named->size() == 4);
  CHECK(named->read(2).at("image").item<int64_t>() == 'c');
}

TEST_CASE("IDX files may have a dot in their names, as on Kaggle", "[idx]") {
  const TempFolder temp;
  temp.write("train-images-idx3-ubyte/notes.txt", "");  // a folder of the usual name
  temp.write("train-images.idx3-ubyte", idx_file({2, 1, 1}, "ab"));
  const std::string labels = temp.write("train-labels.idx1-ubyte", idx_file({2}, "\1\2"));
  const auto data = open_data("{name: idx, data_dir: " + temp.path() + "}");
  CHECK(data->size() == 2);
  CHECK(data->source().labels_file(0) == labels);
}

TEST_CASE("broken IDX files", "[idx]") {
  const TempFolder temp;
  const std::string good = idx_file({2, 1, 3}, "abcdef");
  const std::string file = temp / "x-images";
  const auto with = [&](const std::string& content) { return temp.write("x-images", content); };
  CHECK(image_error(with(std::string(100, '\0'))) ==
        file + " @ offset 0: error: bad IDX magic 0x00000000, expected 0x00000803 (images)");
  CHECK(image_error(with(idx_file({4}, "abcd"))) ==
        file + " @ offset 0: error: bad IDX magic 0x00000801, expected 0x00000803 (images)");
  CHECK(label_error(with(good)) ==
        file + " @ offset 0: error: bad IDX magic 0x00000803, expected 0x00000801 (labels)");
  CHECK(image_error(with("")) != "no error");
  CHECK(image_error(with("abc")) ==
        file + ": error: truncated: no room for an IDX header in 3 bytes");
  CHECK(image_error(with(good.substr(0, 12))) ==
        file + ": error: truncated: the IDX header has 16 bytes, the file 12");
  CHECK(image_error(with(idx_file({60000, 28, 28}, std::string(1000, 'x')))) ==
        file + ": error: truncated: header says 60000 x 28 x 28 = 47040000 bytes, file has 1000");
  CHECK(label_error(with(idx_file({5}, "abc"))) ==
        file + ": error: truncated: header says 5 bytes, file has 3");
  CHECK(image_error(with(good + "z")) ==
        file + ": error: too long: header says 2 x 1 x 3 = 6 bytes, file has 7");
  CHECK(image_error(with(idx_file({2, 0, 3}, ""))) ==
        file + " @ offset 8: error: a dimension is 0");
  // No attempt is made to allocate 2^128 bytes.
  const uint32_t most = 0xFFFFFFFF;
  CHECK(image_error(with(idx_file({most, most, most, most}, "x"))) ==
        file +
            ": error: truncated: header says 4294967295 x 4294967295 x 4294967295 x 4294967295 "
            "= 3.4e+38 bytes, file has 1");
  const std::string packed = gzip(good);
  CHECK(image_error(with(packed.substr(0, packed.size() - 3))) ==
        file + fmt::format(": error: truncated or damaged gzip data (file is {} bytes)",
                           packed.size() - 3));
  CHECK(image_error(with(packed.substr(0, 10))) ==
        file + ": error: truncated or damaged gzip data (file is 10 bytes)");
}

TEST_CASE("a data folder that lacks files", "[idx]") {
  const TempFolder temp;
  const std::string section = "{name: idx, data_dir: " + temp.path() + "}";
  const auto problem = [&] { return error_of([&] { open_data(section); }); };
  CHECK(problem() == "t.yaml:1:23: error: no IDX files in '" + temp.path() +
                         "': expected train-images-idx3-ubyte[.gz] and "
                         "train-labels-idx1-ubyte[.gz], or the same with t10k-");
  const std::string images = temp.write("train-images-idx3-ubyte", idx_file({2, 1, 3}, "abcdef"));
  CHECK(problem() == "t.yaml:1:23: error: no labels for '" + images + "' in '" + temp.path() +
                         "': expected train-labels-idx1-ubyte[.gz]");
  const std::string labels = temp.write("train-labels-idx1-ubyte", idx_file({3}, "\1\1\1"));
  CHECK(problem() == labels + ": error: 3 labels for the 2 images of " + images);
}

TEST_CASE("flipped bytes of IDX and gzip files give errors, and nothing worse", "[idx]") {
  const TempFolder temp;
  for (const std::string& good : {idx_file({20, 3, 3}, std::string(180, 'x')),
                                  gzip(idx_file({20, 3, 3}, std::string(180, 'x')))}) {
    Rng rng(5, Purpose::synthetic, good.size());
    int refused = 0;
    for (int i = 0; i < 1500; ++i) {
      std::string bad = good;
      bad[rng.below(static_cast<int64_t>(std::min<size_t>(good.size(), 40)))] =
          static_cast<char>(rng.bits());
      if (rng.below(4) == 0) bad.resize(rng.below(static_cast<int64_t>(good.size())));
      const std::string file = temp.write("m", bad);
      try {
        read_idx_images(file);
      } catch (const Error& error) {
        CHECK(error.code() == Exit::usage);
        ++refused;
      }
    }
    CHECK(refused > 200);
  }
}

TEST_CASE("MNIST and Fashion-MNIST as published", "[idx]") {
  if (const std::string folder = shared_file("data/mnist-t10k"); !folder.empty()) {
    const auto data = open_data("{name: idx, data_dir: " + folder + ", split: test}");
    CHECK(data->size() == 10000);
    CHECK(data->read(0).at("image").sizes() == at::IntArrayRef({28, 28, 1}));
    CHECK(data->read(0).at("label").item<int64_t>() ==
          7);  // the first test image is known to be a 7
    CHECK(open_data("{name: idx, data_dir: " + folder + ", split: 'test[:8000]'}")->size() == 8000);
  }
  if (const std::string folder = shared_file("data/fashion-mnist-3600"); !folder.empty()) {
    CHECK(open_data("{name: idx, data_dir: " + folder + "}")->size() == 3000);
    CHECK(open_data("{name: idx, data_dir: " + folder + ", split: test}")->size() == 600);
  }
}

}  // namespace bv::test
