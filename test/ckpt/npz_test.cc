// npz files: our own, those of NumPy (test/ckpt/numpy/make.py), the golden ones, and bad ones.
#include "lib/ckpt/formats/npz.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/npy.h"
#include "lib/ckpt/formats/zip.h"
#include "lib/util/file.h"
#include "test/ckpt/support.h"
#include "test/support/compare.h"
#include "test/support/golden.h"

namespace bv::test {

namespace {

// Writes an archive with entries of arbitrary content.
void write_zip(const std::string& file, const std::map<std::string, std::string>& entries,
               uint64_t zip64_from = 0xffffffff) {
  FileWriter out(file);
  ZipWriter zip(out, zip64_from);
  for (const auto& [name, content] : entries) {
    zip.add(name, {reinterpret_cast<const uint8_t*>(content.data()), content.size()});
  }
  zip.finish();
  out.finish();
}

// Returns an npy array with this dictionary and `data` bytes of ones.
std::string npy(const std::string& dictionary, size_t data, char major = 1) {
  std::string content = "\x93NUMPY";
  content += {major, 0, static_cast<char>(dictionary.size() & 0xff),
              static_cast<char>(dictionary.size() >> 8)};
  if (major > 1) content += std::string(2, '\0');
  return content + dictionary + std::string(data, '\1');
}

NamedTensors small() {
  return {{"params/kernel", at::arange(6, at::kFloat).view({2, 3}) / 7},
          {"params/b", at::ones({3}, at::kBFloat16)},
          {"flag", at::ones({3}, at::kBool)}};
}

template <class T>
void patch(std::string& content, size_t at, T value) {
  REQUIRE(at + sizeof(T) <= content.size());
  std::memcpy(content.data() + at, &value, sizeof(T));
}

}  // namespace

TEST_CASE(
    "npz: every type and shape comes back with the same bits, and is written as the same bytes "
    "again") {
  const MemoryFolder folder;
  NamedTensors written;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                          at::kShort, at::kChar, at::kByte, at::kBool}) {
    written[std::string("t/") + at::toString(type)] = at::arange(-3, 4).to(type);
  }
  written["scalar"] = at::scalar_tensor(2.5, at::kFloat);
  written["empty"] = at::empty({0, 4}, at::kFloat);
  written["transposed"] = at::arange(6, at::kInt).view({2, 3}).t();
  written["large"] = at::arange(100000, at::kFloat).view({10, 100, 100}) / 3;
  written["na\xc3\xafve"] = at::ones({1}, at::kByte);
  write_npz(folder / "a.npz", written);
  NamedTensors read = read_npz(folder / "a.npz");
  REQUIRE(read.size() == written.size());
  for (const auto& [name, tensor] : written) {
    INFO(name);
    CHECK(same_bits(read.at(name), tensor));
    CHECK(read.at(name).is_contiguous());
  }
  write_npz(folder / "b.npz", written);
  CHECK(read_file(folder / "a.npz") == read_file(folder / "b.npz"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()),
                      std::filesystem::directory_iterator()) == 2);
}

// test/ckpt/numpy/make.py defines the content of the files.
TEST_CASE("npz: files of NumPy, stored, deflated and written through a pipe") {
  for (const char* name : {"stored", "deflated", "piped"}) {
    INFO(name);
    const std::string file = fmt::format("{}/ckpt/numpy/{}.npz", BV_TEST_DIR, name);
    NamedTensors read = read_npz(file);
    const auto is = [&](const std::string& array, const at::Tensor& expected) {
      INFO(array);
      CHECK(same_bits(read.at(array), expected));
    };
    is("params/f4", at::arange(6, at::kFloat).view({2, 3}) / 4);
    is("params/f8_big", at::tensor({1.5, -2.25, 1e300}, at::kDouble));
    is("params/f2", at::tensor({0.5, -65504.0}).to(at::kHalf));
    is("params/fortran", at::arange(24, at::kInt).view({2, 3, 4}));
    is("params/fortran_big", at::arange(6, at::kShort).view({3, 2}));
    is("params/bf16", at::tensor({1.0, -2.0}).to(at::kBFloat16));
    is("u1", at::tensor({0, 255}, at::kByte));
    is("i1", at::tensor({-128, 127}, at::kChar));
    is("u2", at::tensor({0, 65535}, at::kInt));
    is("u2_big", at::tensor({1, 65534}, at::kInt));
    is("u4", at::tensor({int64_t{0}, int64_t{4294967295}}, at::kLong));
    is("u8", at::tensor({int64_t{0}, INT64_MAX}, at::kLong));
    is("i8", at::tensor({INT64_MIN, INT64_MAX}, at::kLong));
    is("bool", at::tensor({1, 0, 1}).to(at::kBool));
    is("scalar", at::scalar_tensor(7.5, at::kFloat));
    is("empty", at::empty({0, 3}, at::kFloat));
    CHECK(read.size() == 16);  // string arrays are left out

    CHECK(read_npz(file, "params/").size() == 6);
    CHECK(same_bits(read_npz(file, "params/").at("f4"), read.at("params/f4")));
    const std::vector<NpzEntry> entries = list_npz(file);
    REQUIRE(entries.size() == read.size());
    for (const NpzEntry& entry : entries) {
      CHECK(read.at(entry.name).sizes() == entry.shape);
      CHECK(read.at(entry.name).scalar_type() == entry.dtype);
    }
  }
}

TEST_CASE("npz: all golden files are read") {
  const std::string root = shared_file("golden");
  if (root.empty()) return;
  int files = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(root)) {
    if (item.path().extension() != ".npz") continue;
    INFO(item.path().string());
    CHECK(error_of([&] { read_npz(item.path().string()); }) == "");
    ++files;
  }
  CHECK(files > 0);
}

TEST_CASE("npz: large arrays are not packed") {
  const MemoryFolder folder;
  const NamedTensors written = {{"large", at::zeros({2, 1 << 21})},
                                {"small", at::zeros({1 << 21})},
                                {"turned", at::arange(1 << 22).view({1 << 11, 1 << 11}).t()}};
  write_npz(folder / "a.npz", written, {{"names", {"x", "yz"}}});
  const size_t bytes = std::filesystem::file_size(folder / "a.npz");
  CHECK(bytes > size_t{48} << 20);
  CHECK(bytes < size_t{49} << 20);
  const NamedTensors read = read_npz(folder / "a.npz");
  REQUIRE(read.size() == 3);
  for (const auto& [name, tensor] : written) CHECK(same_bits(read.at(name), tensor));
  CHECK(read_npz_text(folder / "a.npz", "names") == std::vector<std::string>{"x", "yz"});
}

TEST_CASE("npz: zip64 records are written and read") {
  const MemoryFolder folder;
  const std::string array = npy_header("<f4", {2}) + std::string(8, '\0');
  for (const uint64_t from : {0, 1, 100, 300}) {
    write_zip(folder / "a.npz", {{"x.npy", array}, {"y.npy", array}, {"z.npy", array}}, from);
    CHECK(read_npz(folder / "a.npz").size() == 3);
  }
  // Destroys most of the fields that zip64 adds, one by one.
  write_zip(folder / "a.npz", {{"x.npy", array}}, 0);
  const std::string whole = read_file(folder / "a.npz");
  const size_t end = whole.size() - 22, locator = end - 20, end64 = locator - 56;
  const size_t extra = end64 - 28;
  for (const size_t at :
       {locator, locator + 8, locator + 15, end64, end64 + 16, end64 + 24, end64 + 32, end64 + 40,
        end64 + 48, extra, extra + 2, extra + 4, extra + 12, extra + 20, extra + 27}) {
    INFO(at);
    std::string content = whole;
    content[at] = static_cast<char>(content[at] ^ 0x55);
    write(folder / "b.npz", content);
    CHECK(error_of([&] { read_npz(folder / "b.npz"); }) != "");
  }
}

// Python's zipfile writes such archives if the directory begins between 2 GiB and 4 GiB.
TEST_CASE("npz: zip64 records are read even if the end record does not refer to them") {
  const MemoryFolder folder;
  const std::string array = npy_header("<f4", {2}) + std::string(8, '\0');
  write_zip(folder / "a.npz", {{"x.npy", array}, {"y.npy", array}}, 0);
  std::string content = read_file(folder / "a.npz");
  const size_t end = content.size() - 22, end64 = end - 20 - 56;
  patch<uint16_t>(content, end + 8, 2);
  patch<uint16_t>(content, end + 10, 2);
  std::memcpy(&content[end + 12], &content[end64 + 40], 4);  // the size of the directory
  std::memcpy(&content[end + 16], &content[end64 + 48], 4);  // its offset
  write(folder / "a.npz", content);
  CHECK(read_npz(folder / "a.npz").size() == 2);
}

TEST_CASE("npz: bad npy headers are refused, each with its line") {
  const MemoryFolder folder;
  const std::string file = folder / "a.npz";
  struct Case {
    std::string content, byte, message;
  };
  const auto dict = [](const char* descr, const char* order, const char* shape) {
    return fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}", descr, order, shape);
  };
  const std::string good = dict("'<f4'", "False", "(2,)");
  const std::vector<Case> cases = {
      {"", "0", "not an npy array"},
      {"PK\3\4", "0", "not an npy array"},
      {"\x93NUMPY", "6", "the npy header is cut off"},
      {npy(good, 8, 4), "6", "npy version 4.0; known: 1.0, 2.0, 3.0"},
      {npy(good, 8).substr(0, 9), "9", "the npy header is cut off"},
      {npy(good, 8).substr(0, 30), "10", "the npy header is cut off"},
      {npy(good, 7), "10", "shape (2) and dtype take 8 bytes, but there are 7"},
      {npy(good, 9), "10", "shape (2) and dtype take 8 bytes, but there are 9"},
      {npy(dict("'|O'", "False", "(2,)"), 8), "20",
       "dtype '|O' is not supported: pickled Python objects are never loaded"},
      {npy(dict("[('a', '<f4')]", "False", "(2,)"), 8), "20", "record arrays are not supported"},
      {npy(dict("'<c8'", "False", "(1,)"), 8), "20", "dtype '<c8' is not supported"},
      {npy(dict("'<M8[ns]'", "False", "(1,)"), 8), "20", "dtype '<M8[ns]' is not supported"},
      {npy(dict("'|V3'", "False", "(2,)"), 6), "20", "dtype '|V3' is not supported"},
      {npy(dict("'f4'", "False", "(2,)"), 8), "20", "dtype 'f4' is not supported"},
      {npy(dict("'<f04'", "False", "(2,)"), 8), "20", "dtype '<f04' is not supported"},
      {npy(dict("'<U99999999999'", "False", "(2,)"), 8), "20",
       "dtype '<U99999999999' is not supported"},
      {npy(dict("'<f4'", "0", "(2,)"), 8), "44", "expected True or False"},
      {npy(dict("'<f4'", "False", "(2)"), 8), "62", "expected ',' in a tuple of one"},
      {npy(dict("'<f4'", "False", "[2]"), 8), "60", "expected '(', got '['"},
      {npy(dict("'<f4'", "False", "(-2,)"), 8), "61", "expected a non-negative integer, got '-'"},
      {npy(dict("'<f4'", "False", "(2, 2,, )"), 8), "66",
       "expected a non-negative integer, got ','"},
      {npy(dict("'<f4'", "False", "(4294967296, 4294967296)"), 8), "10", "the shape is too large"},
      {npy(dict("'<f4'", "False", "(0, 4294967296, 4294967296)"), 0), "10",
       "the shape is too large"},
      {npy("{'descr': '<f4', 'descr': '<f4'}", 8), "27", "'descr' appears twice"},
      {npy("{'descr': '<f4', 'shape': (2,)}", 8), "41", "no 'fortran_order'"},
      {npy("{'kind': 1}", 8), "11", "unknown key 'kind'"},
      {npy(good + "x", 8), std::to_string(10 + good.size()), "expected the end, got 'x'"},
      {npy("__import__('os')", 8), "10", "expected '{', got '_'"},
      {npy(dict("'|b1'", "False", "(8,)"), 7) + "\2", std::to_string(10 + good.size() + 7),
       "a bool that is neither 0 nor 1"},
      {npy(dict("'<u8'", "False", "(1,)"), 7) + "\xff", std::to_string(10 + good.size()),
       "an unsigned integer of 2^63 or more"},
  };
  for (const Case& c : cases) {
    write_zip(file, {{"x.npy", c.content}});
    // 35 is the size of the local header and the name.
    CHECK(error_of([&] { read_npz(file); }) ==
          fmt::format("{} @ offset 35: error: 'x', byte {}: {}", file, c.byte, c.message));
  }
  // Versions 2 and 3 have a longer length field.
  for (const char version : {2, 3}) {
    write_zip(file, {{"x.npy", npy(good, 8, version)}});
    CHECK(read_npz(file).at("x").numel() == 2);
  }
}

TEST_CASE("npz: bad archives are refused, each with its line") {
  const MemoryFolder folder;
  const std::string file = folder / "a.npz";
  const std::string array = npy_header("<f4", {2}) + std::string(8, '\0');
  write_zip(file, {{"x.npy", array}, {"y.npy", array}});
  const std::string whole = read_file(file);
  const size_t end = whole.size() - 22, entry_y = end - 51, entry_x = entry_y - 51;
  const size_t local_y = whole.find("PK\3\4", 4);
  const auto line = [&](const std::function<void(std::string&)>& change) {
    std::string content = whole;
    change(content);
    write(file, content);
    std::string text = error_of([&] { read_npz(file); });
    if (text.starts_with(file + " @ offset ")) text.erase(0, file.size() + 10);
    return text;
  };
  const auto at = [](size_t offset, const std::string& message) {
    return fmt::format(" {}: error: {}", offset, message).substr(1);
  };
  CHECK(line([](std::string& c) { c = "hello"; }) ==
        at(5, "not a zip archive, or cut off: it has no end-of-directory record"));
  CHECK(line([](std::string& c) { c.clear(); }) == file + ": error: the file is empty");
  CHECK(line([&](std::string& c) { patch<uint16_t>(c, end + 4, 1); }) ==
        at(end, "archives in several parts are not supported"));
  CHECK(line([&](std::string& c) {
          patch<uint16_t>(c, end + 8, 1), patch<uint16_t>(c, end + 10, 1);
        }) ==
        at(entry_y, fmt::format("the directory ends here, but should end at offset {}", end)));
  CHECK(line([&](std::string& c) {
          patch<uint16_t>(c, end + 8, 60000), patch<uint16_t>(c, end + 10, 60000);
        }) == at(entry_x, "60000 entries do not fit in a directory of 102 bytes"));
  CHECK(
      line([&](std::string& c) { patch<uint32_t>(c, end + 16, entry_y); }) ==
      at(end, fmt::format("the directory claims to have 102 bytes at offset {}, which does not end "
                          "at its end record (offset {})",
                          entry_y, end)));
  CHECK(line([&](std::string& c) {
          patch<uint16_t>(c, end + 10, 0xffff), patch<uint16_t>(c, end + 8, 0xffff);
        }) == at(end, "the zip64 locator before the end record is missing"));
  CHECK(line([&](std::string& c) { patch<uint16_t>(c, entry_x + 8, 1); }) ==
        at(entry_x, "'x.npy' is encrypted"));
  CHECK(line([&](std::string& c) { patch<uint16_t>(c, entry_x + 10, 12); }) ==
        at(entry_x, "'x.npy' is packed by method 12; known: 0 (stored), 8 (deflated)"));
  CHECK(line([&](std::string& c) {
          patch<uint32_t>(c, entry_x + 24, 1 << 30);
        }).find("to 1073741824 bytes, more than deflate can (1032 times)") != std::string::npos);
  CHECK(line([&](std::string& c) { patch<uint32_t>(c, entry_x + 24, 0xffffffff); }) ==
        at(entry_x, "'x.npy': its zip64 field is missing or too short"));
  CHECK(line([&](std::string& c) { patch<uint32_t>(c, entry_x + 20, 100000); }) ==
        at(entry_x,
           fmt::format("'x.npy' claims to take 100000 bytes of a file of {}", whole.size())));
  CHECK(line([&](std::string& c) {
          patch<uint16_t>(c, entry_x + 10, 0);
        }).find("'x.npy' is stored, but has sizes ") != std::string::npos);
  CHECK(line([&](std::string& c) { patch<uint32_t>(c, entry_x + 42, 1); }) ==
        at(1, "no local header of 'x.npy' here"));
  CHECK(line([&](std::string& c) { patch<uint32_t>(c, entry_y + 42, 0); }) ==
        at(0, "the local header of 'y.npy' does not agree with the directory"));
  CHECK(line([&](std::string& c) { patch<uint16_t>(c, local_y + 28, 60000); }) ==
        at(local_y, "'y.npy' goes beyond the directory"));
  CHECK(line([&](std::string& c) {
          patch<uint32_t>(c, entry_x + 16, 0), patch<uint32_t>(c, 14, 0);
        }) == at(35, "'x.npy': damaged: its CRC differs"));
  CHECK(line([&](std::string& c) {
          patch<uint32_t>(c, entry_x + 24, 100), patch<uint32_t>(c, 22, 100);
        }) == at(35, "'x.npy': damaged: it does not unpack to its size"));
  CHECK(line([&](std::string& c) {
          patch<uint32_t>(c, entry_x + 24, 200), patch<uint32_t>(c, 22, 200);
        }) == at(35, "'x.npy': damaged: it does not unpack to its size"));
  CHECK(line([&](std::string& c) {
          patch<uint16_t>(c, local_y + 26, 5), c[local_y + 30] = 'x', c[entry_y + 46] = 'x';
        }) == at(entry_y, "'x.npy' appears twice"));
  // The extra field of an entry is so long that its data would begin within the next entry.
  CHECK(line([&](std::string& c) { patch<uint16_t>(c, 28, 20); }) ==
        at(local_y, "'y.npy' overlaps 'x.npy'"));

  const std::map<std::string, std::string> names = {
      {"../x.npy", "invalid entry name '../x.npy'"},
      {"/x.npy", "invalid entry name '/x.npy'"},
      {"a/../../x.npy", "invalid entry name 'a/../../x.npy'"},
      {"a\\x.npy", "invalid entry name 'a\\x.npy'"},
      {"a\nx.npy", "an entry's name is not printable UTF-8"},
      {std::string("a\0x.npy", 7), "an entry's name is not printable UTF-8"},
      {"\xff.npy", "an entry's name is not printable UTF-8"},
  };
  for (const auto& [name, message] : names) {
    write_zip(file, {{name, array}});
    CHECK(error_of([&] { read_npz(file); }).ends_with(": error: " + message));
  }
  write_zip(file, {{"x.txt", array}});
  CHECK(error_of([&] { read_npz(file); }) ==
        file + " @ offset 0: error: entry 'x.txt' is not an npy array");
  write_zip(file, {{"params/", ""}, {"params/x.npy", array}});
  CHECK(read_npz(file).size() == 1);
}

TEST_CASE("npz: the size limit counts arrays after their conversion") {
  const MemoryFolder folder;
  const std::string file = folder / "a.npz";
  // The other array is so large that the whole file would not be a bomb.
  write_npz(file, {{"a/x", at::zeros({1 << 19}, at::kByte)},
                   {"b/noise", at::rand({1 << 20}, at::kFloat)}});
  const auto read = [&](uint64_t width, NpzSize size) {
    return error_of([&] {
      read_npz(file, "a/", size, [&](const NpzEntry& array) {
        CHECK(array.name == "x");
        CHECK(array.shape == std::vector<int64_t>{1 << 19});
        CHECK(array.dtype == at::kByte);
        return width;
      });
    });
  };
  CHECK(read(0, NpzSize::plausible) == "");
  CHECK(read(511, NpzSize::plausible) == "");
  const std::string refused = read(1024, NpzSize::plausible);
  CHECK_THAT(refused, Catch::StartsWith(file + ": error: its "));
  CHECK_THAT(refused, Catch::EndsWith(" would unpack to 512.0 MiB: a zip bomb, or damaged"));
  CHECK(read(1024, NpzSize::checked) == "");
}

TEST_CASE("npz: a file cut off at any length is refused") {
  const MemoryFolder folder;
  write_npz(folder / "a.npz", small());
  const std::string whole = read_file(folder / "a.npz");
  for (size_t length = 0; length < whole.size(); ++length) {
    write(folder / "b.npz", whole.substr(0, length));
    CHECK(error_of([&] { read_npz(folder / "b.npz"); }) != "");
  }
}

TEST_CASE("npz: random damage throws bv::Error or nothing") {
  const MemoryFolder folder;
  const std::string file = folder / "a.npz";
  std::mt19937 random(20261121);
  int refused = 0;
  for (const char* source : {"stored", "deflated", "piped"}) {
    const std::string whole = read_file(fmt::format("{}/ckpt/numpy/{}.npz", BV_TEST_DIR, source));
    for (int i = 0; i < 1500; ++i) {
      write(file, mutated(whole, random));
      // Any other exception ends the test.
      if (error_of([&] {
            for (const auto& [name, tensor] : read_npz(file)) tensor.to(at::kDouble).sum();
          }) != "") {
        ++refused;
      }
    }
  }
  CHECK(refused > 3000);
}

TEST_CASE("npz: a file that is replaced keeps its permissions") {
  namespace fs = std::filesystem;
  const MemoryFolder folder;
  write_npz(folder / "a.npz", small());
  const fs::perms own = fs::perms::owner_read | fs::perms::owner_write;
  fs::permissions(folder / "a.npz", own);
  write_npz(folder / "a.npz", small());
  CHECK(fs::status(folder / "a.npz").permissions() == own);
}

TEST_CASE("npz: a failed write leaves the old file and no temporary") {
  const MemoryFolder folder;
  std::filesystem::create_directory(folder / "a.npz");  // a folder cannot be replaced by a file
  const std::string line = error_of([&] { write_npz(folder / "a.npz", small()); }, Exit::storage);
  CHECK(line.ends_with(
      fmt::format(": error: cannot rename to {}: Is a directory", folder / "a.npz")));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()),
                      std::filesystem::directory_iterator()) == 1);
}

}  // namespace bv::test
