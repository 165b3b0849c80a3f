// safetensors files: round trips, alignment, and every way in which one can be bad.
#include "lib/ckpt/formats/safetensors.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <random>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/safetensors_header.h"
#include "lib/util/file.h"
#include "lib/util/limits.h"
#include "test/ckpt/support.h"
#include "test/support/compare.h"

namespace bv::test {

namespace {

// Returns a file with this JSON header and `data` bytes of data.
std::string file_of(const std::string& json, size_t data) {
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json + std::string(data, '\1');
}

NamedTensors samples() {
  NamedTensors tensors;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                          at::kShort, at::kChar, at::kByte, at::kBool}) {
    tensors[std::string("t/") + at::toString(type)] = at::arange(-3, 4).to(type);
  }
  tensors["params/head/kernel"] = at::arange(35, at::kFloat).view({5, 7}) / 3;
  tensors["scalar"] = at::scalar_tensor(int64_t{1} << 60, at::kLong);
  tensors["empty"] = at::empty({0, 4}, at::kFloat);
  tensors["transposed"] = at::arange(6, at::kInt).view({2, 3}).t();
  tensors["na\xc3\xafve \"quoted\"\n"] = at::ones({1}, at::kByte);
  return tensors;
}

}  // namespace

TEST_CASE("safetensors: every type and shape comes back with the same bits") {
  const MemoryFolder folder;
  const std::string file = folder / "a.safetensors";
  const NamedTensors written = samples();
  write_safetensors(file, written, {{"format", "pt"}});
  NamedTensors read = read_safetensors(file);
  REQUIRE(read.size() == written.size());
  for (const auto& [name, tensor] : written) {
    INFO(name);
    CHECK(same_bits(read.at(name), tensor));
  }
  // The same content gives the same file again.
  write_safetensors(folder / "b.safetensors", written, {{"format", "pt"}});
  CHECK(read_file(file) == read_file(folder / "b.safetensors"));
}

TEST_CASE(
    "safetensors: data begin at a multiple of 64 bytes, tensors at a multiple of their element "
    "size") {
  const MemoryFolder folder;
  for (int length = 1; length < 70; ++length) {
    const std::string file = folder / "a.safetensors";
    write_safetensors(file, {{std::string(length, 'b'), at::ones({3}, at::kByte)},
                             {"c", at::ones({3}, at::kDouble)},
                             {"a", at::ones({1}, at::kHalf)}});
    const std::string content = read_file(file);
    const auto bytes = std::span(reinterpret_cast<const uint8_t*>(content.data()), content.size());
    const SafetensorsHeader header = parse_safetensors_header(bytes, bytes.size(), file);
    CHECK(header.data % 64 == 0);
    for (const auto& entry : header.entries) {
      CHECK((header.data + entry.begin) % safetensors_element_bytes(entry.dtype) == 0);
    }
  }
}

TEST_CASE("safetensors: tensors stay valid without the file and without each other") {
  const MemoryFolder folder;
  at::Tensor kept;
  {
    write_safetensors(folder / "a", {{"x", at::arange(1000, at::kFloat)}, {"y", at::ones({9})}});
    kept = read_safetensors(folder / "a").at("x");
    std::filesystem::remove(folder / "a");
  }
  CHECK(kept.sum().item<double>() == 499500);
}

TEST_CASE("safetensors: a misaligned tensor of another writer is copied") {
  const MemoryFolder folder;
  const std::string json = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  std::string content = file_of(json, 9);
  const float values[] = {1.5f, -2.5f};
  std::memcpy(content.data() + content.size() - 8, values, 8);
  write(folder / "a", content);
  const at::Tensor f = read_safetensors(folder / "a").at("f");
  CHECK(reinterpret_cast<uintptr_t>(f.const_data_ptr()) % 4 == 0);
  CHECK(same_bits(f, at::tensor({1.5f, -2.5f})));
}

TEST_CASE("safetensors: bad files are refused, each with its line") {
  const MemoryFolder folder;
  const std::string file = folder / "x";
  const auto tensor = [](const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
  };
  const std::string f2 = tensor("F32", "[2]", "[0,8]");
  struct Case {
    std::string content, offset, message;
  };
  const auto json = [](const std::string& text, size_t data = 8) { return file_of(text, data); };
  const std::vector<Case> cases = {
      {"abc", "0", "a safetensors file begins with 8 bytes of length, this one has 3 in all"},
      {"<!DOCTYPE html>", "0",
       "header length 5789751444030890300 is above the limit of 8388608 bytes (is this a "
       "safetensors file?)"},
      {std::string("\x10\0\0\0\0\0\0\0{}", 10), "0",
       "header length 16 does not fit in a file of 10 bytes"},
      {json(""), "8", "expected '{', got the end"},
      {json("[]"), "8", "expected '{', got '['"},
      {json("{} x"), "11", "expected the end, got 'x'"},
      {json("{\"a"), "9", "string without an end"},
      {json("{\"a\\q\":{}}"), "9", "not a valid JSON string"},
      {json("{\"\xff\":{}}"), "9", "not a valid JSON string"},
      {json("{\"a\" 1}"), "13", "expected ':', got '1'"},
      {json("{\"a\":" + f2 + ",}"), std::to_string(9 + 5 + f2.size()), "expected '\"', got '}'"},
      {json("{\"a\":" + f2 + ",\"a\":" + f2 + "}"), std::to_string(9 + 5 + f2.size()),
       "'a' appears twice"},
      {json("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}"), "28",
       "tensor 'a': 'dtype' appears twice"},
      {json("{\"a\":{\"dtyp\":\"F32\"}}"), "14",
       "tensor 'a': unknown field 'dtyp'; known: dtype, shape, data_offsets"},
      {json("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}"), "9", "tensor 'a' has no data_offsets"},
      {json("{\"a\":" + tensor("F8_E4M3", "[8]", "[0,8]") + "}"), "9",
       "tensor 'a': unknown dtype 'F8_E4M3'; known: F64, F32, F16, BF16, I64, I32, I16, I8, U8, "
       "BOOL"},
      {json("{\"a\":" + tensor("F32", "[3]", "[0,8]") + "}"), "9",
       "tensor 'a': shape and dtype take 12 bytes, data_offsets 8"},
      {json("{\"a\":" + tensor("F32", "[-2]", "[0,8]") + "}"), "37",
       "expected a non-negative integer, got '-'"},
      {json("{\"a\":" + tensor("F32", "[2.0]", "[0,8]") + "}"), "38", "expected ']', got '.'"},
      {json("{\"a\":" + tensor("F32", "[02]", "[0,8]") + "}"), "37", "integer with a leading zero"},
      {json("{\"a\":" + tensor("F32", "[9223372036854775808]", "[0,8]") + "}"), "37",
       "integer of 2^63 or more"},
      {json("{\"a\":" + tensor("F32", "[4294967296,4294967296]", "[0,8]") + "}"), "9",
       "tensor 'a': its shape is too large"},
      {json("{\"a\":" + tensor("F32", "[0,4294967296,4294967296]", "[0,0]") + "}", 0), "9",
       "tensor 'a': its shape is too large"},
      {json("{\"a\":" + tensor("F32", "[2]", "[8,0]") + "}"), "55",
       "tensor 'a': data_offsets must be [begin, end] with begin <= end"},
      {json("{\"a\":" + tensor("F32", "[2]", "[0,4,8]") + "}"), "55",
       "tensor 'a': data_offsets must be [begin, end] with begin <= end"},
      {json("{\"a\":" + f2 + "}", 7), "9", "tensor 'a' ends at byte 8 of the data, which has 7"},
      {json("{\"a\":" + f2 + "}", 9), std::to_string(8 + 6 + f2.size() + 8),
       "1 bytes belong to no tensor"},
      {json("{\"a\":" + tensor("F32", "[2]", "[4,12]") + "}", 12), "9",
       "tensor 'a' begins at byte 4 of the data, but the one before it ends at byte 0"},
      {json("{\"b\":" + tensor("F32", "[2]", "[4,12]") + ",\"a\":" + f2 + "}", 12), "9",
       "tensor 'b' begins at byte 4 of the data, before the end of the one before it at byte 8"},
      {json("{\"a\":" + tensor("BOOL", "[8]", "[0,8]") + "}", 7) + "\2", "70",
       "tensor 'a': byte 2 in a BOOL tensor (0 or 1 expected)"},
      {json("{\"__metadata__\":{\"a\":1}}"), "29", "expected '\"', got '1'"},
      {json("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}"), "32", "metadata 'a' appears twice"},
  };
  for (const Case& c : cases) {
    write(file, c.content);
    CHECK(error_of([&] { read_safetensors(file); }) ==
          fmt::format("{} @ offset {}: error: {}", file, c.offset, c.message));
  }
  CHECK(error_of([&] { read_safetensors(folder / "none"); }) ==
        folder / "none" + ": error: no such file");
}

TEST_CASE("safetensors: a file cut off at any length is refused") {
  const MemoryFolder folder;
  write_safetensors(folder / "a", {{"x", at::ones({5})}, {"flag", at::ones({3}, at::kBool)}});
  const std::string whole = read_file(folder / "a");
  for (size_t length = 0; length < whole.size(); ++length) {
    write(folder / "b", whole.substr(0, length));
    CHECK(error_of([&] { read_safetensors(folder / "b"); }) != "");
  }
}

TEST_CASE("safetensors: random damage throws bv::Error or nothing") {
  const MemoryFolder folder;
  const std::string file = folder / "a";
  write_safetensors(file,
                    {{"x", at::ones({5})},
                     {"y", at::ones({2, 2}, at::kBFloat16)},
                     {"flag", at::ones({3}, at::kBool)}},
                    {{"k", "v"}});
  const std::string whole = read_file(file);
  std::mt19937 random(20261121);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    write(file, mutated(whole, random));
    // Any other exception ends the test.
    if (error_of([&] {
          for (const auto& [name, tensor] : read_safetensors(file)) tensor.to(at::kDouble).sum();
        }) != "") {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("safetensors: a file that could not be read again is not written") {
  const MemoryFolder folder;
  const std::string file = folder / "a";
  // A name that gives the header a size of `bytes`. The end of the header is a multiple of 64.
  const auto named = [](size_t bytes) {
    const size_t others =
        std::string(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})").size();
    return NamedTensors{{std::string(bytes - others, 'n'), at::ones({1}, at::kByte)}};
  };
  // The 8 bytes before it are its length.
  constexpr size_t kLongest = limits::kSafetensorsHeaderBytes - 8;
  const NamedTensors longest = named(kLongest);
  write_safetensors(file, longest);
  CHECK(read_file(file).size() == 8 + kLongest + 1);
  CHECK(read_safetensors(file).count(longest.begin()->first) == 1);
  CHECK(
      error_of([&] { write_safetensors(file, named(kLongest + 1)); }, Exit::storage) ==
      file +
          ": error: 1 tensors need a header of 8388664 bytes, which is above the limit of 8388608");
  CHECK(
      error_of(
          [&] {
            write_safetensors(file, {}, {{"k", std::string(kLongest, 'v')}});
          },
          Exit::storage) ==
      file +
          ": error: 0 tensors need a header of 8388664 bytes, which is above the limit of 8388608");
  // A checkpoint of so many tensors fails when it is saved, not when it is read.
  const Workdir workdir(folder / "run");
  ::setenv("BVTRAIN_RETRY_AFTER", "0", 1);
  Checkpointer checkpointer(workdir);
  Snapshot snapshot;
  snapshot.step = 1;
  snapshot.tensors = named(kLongest + 1);
  checkpointer.save(std::move(snapshot), true);
  CHECK_THAT(error_of([&] { checkpointer.wait(); }, Exit::storage),
             Catch::EndsWith("above the limit of 8388608"));
  ::unsetenv("BVTRAIN_RETRY_AFTER");
  CHECK_FALSE(Checkpointer::latest(workdir).has_value());
}

TEST_CASE("safetensors: tensors of another order in memory") {
  const MemoryFolder folder;
  const NamedTensors tensors = {
      {"long", at::rand({3000, 700}).t()},
      {"short", at::rand({5000, 150}).t().to(at::kBFloat16)},
      {"rows", at::rand({2, 800, 500}).permute({1, 2, 0})},
      {"few", at::rand({300'000, 3}).t()},
      {"gaps", at::rand({1000, 1000}).slice(1, 0, 1000, 3)},
  };
  write_safetensors(folder / "t", tensors);
  const NamedTensors read = read_safetensors(folder / "t");
  for (const auto& [name, tensor] : tensors) {
    INFO(name);
    CHECK(read.at(name).equal(tensor));
  }
}

TEST_CASE("safetensors: a failed write is Error(storage)") {
  const MemoryFolder folder;
  const std::string file = folder / "no/such/folder/a";
  CHECK(error_of(
            [&] {
              write_safetensors(file, {{"x", at::ones({5})}});
            },
            Exit::storage) == file + ": error: cannot create: No such file or directory");
}

}  // namespace bv::test
