// String arrays: round trips, NumPy reads them, and damaged ones are rejected.
#include "lib/ckpt/formats/npy_text.h"

#include <ATen/ops/ones.h>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/npy.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/zip.h"
#include "test/ckpt/support.h"

namespace bv::test {
namespace {

using Texts = std::vector<std::string>;

ErrorAt error_at() {
  return [](size_t position, const std::string& message) {
    return Error(Exit::usage, fmt::format("byte {}", position), message);
  };
}

Texts round_trip(const Texts& texts) {
  const std::vector<uint8_t> npy = text_npy(texts);
  return npy_texts(npy, parse_npy_header(npy, error_at()), error_at());
}

}  // namespace

TEST_CASE("texts of an array come back") {
  const Texts texts = {"", "a.jpg", "ä/€/\xf0\x9f\x98\x80.png", "a\nb", " "};
  CHECK(round_trip(texts) == texts);
  CHECK(round_trip({}).empty());
  CHECK(round_trip({"", ""}) == Texts{"", ""});
  // Bytes that are not UTF-8: latin-1, a cut character, an overlong one, a surrogate, too large.
  const Texts bytes = {"\xe4.jpg",         "a\xe2\x82",        "\xc0\x80", "\xed\xa0\x80",
                       "\xf5\x80\x80\x80", "\xf9\x80\x80\x80", "\xff\xfe", "\x80"};
  CHECK(round_trip(bytes) == bytes);
}

TEST_CASE("an npz file holds texts beside arrays, which only read_npz_text() returns") {
  const MemoryFolder folder;
  const std::string file = folder / "f.npz";
  write_npz(file, {{"a", at::ones({2})}}, {{"names", {"x", "yy"}}, {"more", {"z"}}});
  CHECK(read_npz(file).size() == 1);
  CHECK(read_npz_text(file, "names") == Texts{"x", "yy"});
  CHECK(read_npz_text(file, "more") == Texts{"z"});
  CHECK_FALSE(read_npz_text(file, "a"));
  CHECK_FALSE(read_npz_text(file, "none"));
}

TEST_CASE("whether an array is text is not asked of a zip bomb") {
  const MemoryFolder folder;
  const std::string file = folder / "bomb.npz";
  constexpr size_t kCharacters = size_t{65} << 20;
  {
    std::string content = npy_header(fmt::format("<U{}", kCharacters), {1});
    content.resize(content.size() + 4 * kCharacters);
    replace_file(file, [&](FileWriter& out) {
      ZipWriter zip(out);
      zip.add("label.npy", {reinterpret_cast<const uint8_t*>(content.data()), content.size()});
      zip.finish();
    });
  }
  CHECK_THAT(error_of([&] { is_npz_text(file, "label"); }),
             Catch::EndsWith(" would unpack to 260.0 MiB: a zip bomb, or damaged"));
}

TEST_CASE("text that is no Unicode is refused") {
  std::vector<uint8_t> npy = text_npy({"abc"});
  NpyHeader header = parse_npy_header(npy, error_at());
  npy[header.data + 7] = 0x7f;
  CHECK(error_of([&] { npy_texts(npy, header, error_at()); }) ==
        fmt::format("byte {}: error: 2130706530 is not a Unicode character", header.data + 4));
  npy[header.data + 7] = 0;
  header.big_endian = true;
  CHECK(error_of([&] { npy_texts(npy, header, error_at()); }) ==
        fmt::format("byte {}: error: 1627389952 is not a Unicode character", header.data));
}

}  // namespace bv::test
