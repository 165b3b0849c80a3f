#include "lib/input/sources/common/webdataset/tar.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/util/rng.h"
#include "test/input/tar_writer.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {
namespace {

struct Read {
  std::string name, content;
  bool operator==(const Read&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Read& read) {  // for Catch2
    return out << read.name << ": " << read.content.size() << " bytes";
  }
};

// Returns the regular files of a tar.
std::vector<Read> files_of(const std::string& file) {
  TarReader reader(file);
  std::vector<Read> found;
  for (TarMember member; reader.next(member);) {
    if (member.is_file()) found.push_back({member.name, reader.content(member)});
  }
  return found;
}

struct Tars : MemoryFolder {
  std::vector<Read> files(const std::string& bytes) const {
    return files_of(write("t.tar", bytes));
  }
  // Returns the message about a tar without the folder of its name.
  std::string problem(const std::string& bytes) const {
    const std::string text = error_of([&] { files(bytes); });
    return text.starts_with(path()) ? text.substr(path().size() + 1) : text;
  }
};

// Returns `header` with some bytes replaced, and a correct checksum.
std::string changed_header(std::string header, size_t at, const std::string& bytes) {
  return with_checksum(header.replace(at, bytes.size(), bytes));
}

using Reads = std::vector<Read>;

}  // namespace

TEST_CASE("all formats of tar are read", "[tar]") {
  const Tars tars;
  const std::string long_name = std::string(150, 'd') + "/" + std::string(149, 'n');
  CHECK(tars.files(tar_member("a", "1", TarFormat::v7) + tar_member("b", "", TarFormat::v7) +
                   kTarEnd) == Reads{{"a", "1"}, {"b", ""}});
  CHECK(tars.files(tar_member("a", "1") + kTarEnd) == Reads{{"a", "1"}});
  CHECK(tars.files(tar_member("a", "1", TarFormat::gnu) + kTarEnd) == Reads{{"a", "1"}});
  CHECK(tars.files(gnu_long_member(long_name, "12") + tar_member("b", "3") + kTarEnd) ==
        Reads{{long_name, "12"}, {"b", "3"}});
  CHECK(tars.files(pax_header(pax_record("mtime", "1.5") + pax_record("path", long_name)) +
                   tar_member("short", "12") + tar_member("b", "3") + kTarEnd) ==
        Reads{{long_name, "12"}, {"b", "3"}});
  CHECK(tars.files(pax_header(pax_record("comment", "0123"), 'g') + tar_member("a", "1") +
                   kTarEnd) == Reads{{"a", "1"}});
  // A pax header may have the size, and the header of the member then has 0.
  CHECK(tars.files(pax_header(pax_record("size", "3")) + tar_header("a", 0) + tar_padded("123") +
                   tar_member("b", "4") + kTarEnd) == Reads{{"a", "123"}, {"b", "4"}});
  CHECK(tars.files(with_base256_size(tar_header("a", 0, '0', TarFormat::gnu), 700) +
                   tar_padded(std::string(700, 'x')) + kTarEnd) ==
        Reads{{"a", std::string(700, 'x')}});
  // ustar's prefix, and GNU tar's field in its place.
  const std::string prefixed = changed_header(tar_header("name", 0), 345, "some/folder");
  CHECK(tars.files(prefixed + kTarEnd) == Reads{{"some/folder/name", ""}});
  const std::string gnu =
      changed_header(tar_header("name", 0, '0', TarFormat::gnu), 345, "14000000000");
  CHECK(tars.files(gnu + kTarEnd) == Reads{{"name", ""}});
  // A name of exactly 100 bytes has no NUL at its end.
  CHECK(tars.files(tar_member(std::string(100, 'n'), "1") + kTarEnd) ==
        Reads{{std::string(100, 'n'), "1"}});
  // Numbers with blanks, and checksums of signed bytes.
  CHECK(tars.files(changed_header(tar_header("a", 0), 124, "         3 ") + tar_padded("123") +
                   kTarEnd) == Reads{{"a", "123"}});
  std::string old = tar_header("\xFF\xFE", 0);
  uint32_t sum = 0;
  for (const char c : old) sum += static_cast<uint8_t>(c);
  for (int i = 148; i < 156; ++i) sum += ' ' - static_cast<uint8_t>(old[i]);
  old.replace(148, 8, fmt::format("{:06o}", sum - 512) + std::string("\0 ", 2));
  CHECK(tars.files(old + kTarEnd) == Reads{{"\xFF\xFE", ""}});
}

TEST_CASE("members that are no files have a type and no content", "[tar]") {
  const Tars tars;
  const std::string file = tars.write(
      "t.tar", tar_header("d/", 0, '5') + tar_header("old/", 0, '0', TarFormat::v7) +
                   tar_header("l", 7, '1', TarFormat::ustar, "target") +
                   tar_header("s", 0, '2', TarFormat::ustar, "../x") + tar_header("p", 0, '6') +
                   tar_header("v", 0, 'V', TarFormat::gnu) + tar_member("a", "1") + kTarEnd);
  TarReader reader(file);
  std::string types, targets;
  for (TarMember member; reader.next(member);) {
    types += member.type;
    targets += member.target;
  }
  CHECK(types ==
        "5512"
        "6V0");
  CHECK(targets == "target../x");
}

TEST_CASE("the end of a tar", "[tar]") {
  const Tars tars;
  const std::string member = tar_member("a", "123"), header = tar_header("a", 3);
  const Reads whole{{"a", "123"}};
  CHECK(tars.files(member + std::string(10'240, '\0')) == whole);
  CHECK(tars.files(member + std::string(512, '\0')) == whole);
  CHECK(tars.files(member + std::string(100, '\0')) == whole);
  CHECK(tars.files(member) == whole);
  CHECK(tars.files(header + "123") == whole);  // not even padded
  CHECK(tars.files(kTarEnd).empty());
  // Only a block of zeros shows that no member is missing.
  const auto has_end = [&](const std::string& bytes) {
    TarReader reader(tars.write("t.tar", bytes));
    for (TarMember each; reader.next(each);) CHECK_FALSE(reader.has_end());
    return reader.has_end();
  };
  CHECK(has_end(member + std::string(10'240, '\0')));
  CHECK(has_end(member + std::string(512, '\0')));
  CHECK_FALSE(has_end(member + std::string(511, '\0')));
  CHECK_FALSE(has_end(member));
  CHECK_FALSE(has_end(header + "123"));
  CHECK(tars.problem(header + "12") ==
        "t.tar @ offset 0: error: 'a' has 3 bytes, but the file ends after 2 of them: it is cut "
        "off");
  CHECK(tars.problem(member + header.substr(0, 100)) ==
        "t.tar @ offset 1024: error: the file ends within a header, after 100 of 512 bytes: it is "
        "cut off");
  CHECK(tars.problem(member + kTarEnd + member) ==
        "t.tar @ offset 2048: error: there is data after the end of the tar, perhaps a second tar: "
        "join tars with 'tar -A', not with 'cat', or list each tar");
  CHECK_THAT(
      tars.problem(member + std::string(512, '\0') + member),
      Catch::StartsWith("t.tar @ offset 1536: error: there is data after the end of the tar"));
  CHECK_THAT(
      tars.problem(member + std::string(100'000, '\0') + "x"),
      Catch::StartsWith("t.tar @ offset 101024: error: there is data after the end of the tar"));
  CHECK(tars.problem(member + pax_header(pax_record("path", "b")) + kTarEnd) ==
        "t.tar @ offset 1024: error: the member of this extended header is missing");
  CHECK(tars.problem(member + pax_header(pax_record("path", "b")).substr(0, 515)) ==
        "t.tar @ offset 1024: error: the file ends within an extended header, after 3 of 9 bytes: "
        "it is cut off");
}

TEST_CASE("files that are no tar say what they are", "[tar]") {
  const Tars tars;
  const auto packed = [](const std::string& name, const std::string& command) {
    return "t.tar: error: is compressed with " + name +
           ", but examples are read from the middle of a file: unpack it with '" + command +
           "' and give the path of the .tar";
  };
  CHECK(tars.problem("") == "t.tar: error: the file is empty");
  CHECK(tars.problem("\x1f\x8b\x08 ...") == packed("gzip", "gunzip"));
  CHECK(tars.problem("\x28\xb5\x2f\xfd ...") == packed("zstd", "unzstd"));
  CHECK(tars.problem("BZh91AY") == packed("bzip2", "bunzip2"));
  CHECK(tars.problem(std::string("\xfd"
                                 "7zXZ\0.",
                                 7)) == packed("xz", "unxz"));
  CHECK(tars.problem("PK\x03\x04...") == "t.tar: error: is a zip archive, not a tar file");
  CHECK_THAT(tars.problem("version https://git-lfs.github.com/spec/v1\noid sha256:12\n"),
             Catch::StartsWith("t.tar: error: this is a git-LFS pointer"));
  CHECK_THAT(tars.problem("<!DOCTYPE html><title>404</title>"),
             Catch::StartsWith("t.tar: error: this is an HTML page"));
  CHECK(tars.problem("abc") == "t.tar: error: is not a tar file: it has only 3 bytes");
  CHECK(tars.problem(std::string(2000, 'x')) ==
        "t.tar: error: is not a tar file: it does not begin with a header");
  CHECK(tars.problem(std::string("\xFF\xD8\xFF", 3) + std::string(2000, 'x')) ==
        "t.tar: error: is not a tar file: it does not begin with a header");
}

TEST_CASE("damaged headers are errors at their offset", "[tar]") {
  const Tars tars;
  const std::string good = tar_member("a", "123"), header = tar_header("b", 0);
  const auto at_1024 = [&](const std::string& rest) {
    const std::string text = tars.problem(good + rest + kTarEnd);
    const std::string where = "t.tar @ offset 1024: error: ";
    return text.starts_with(where) ? text.substr(where.size()) : text;
  };
  std::string flipped = header;
  flipped[1] ^= 1;
  CHECK(at_1024(flipped) ==
        "this is not the header of a member: its checksum is wrong; the file is damaged");
  CHECK_THAT(at_1024(std::string(512, 'x')), Catch::StartsWith("this is not the header"));
  CHECK(at_1024(changed_header(header, 124, "12345x78901")) ==
        "the size in this header is not a number");
  CHECK(at_1024(changed_header(header, 124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")) ==
        "the size in this header is not a number");
  CHECK(at_1024(changed_header(header, 124, "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")) ==
        "the size in this header is not a number");
  CHECK(at_1024(with_base256_size(header, uint64_t{1} << 62)) ==
        "'b' has 4611686018427387904 bytes, but the file ends after 1024 of them: it is cut off");
  CHECK(at_1024(changed_header(header, 124, "77777777777")) ==
        "'b' has 8589934591 bytes, but the file ends after 1024 of them: it is cut off");
  CHECK(at_1024(tar_header("x", (1 << 20) + 1, 'L')) ==
        "an extended header of 1048577 bytes, more than 1048576");
  CHECK(at_1024(tar_header("x", 1 << 20, 'x')) ==
        "the file ends within an extended header, after 1024 of 1048576 bytes: it is cut off");
  for (const char* records :
       {"x", "12", " 3 a=\n", "9 path=ab\n", "99 path=ab\n", "10 path=abc", "5 ab\n", "3 \n",
        "-9 path=a\n", "99999999999999999999 path=a\n", "9 size=a\n", "10 size=-1\n"})
    CHECK(at_1024(pax_header(records)) == "a damaged pax header");
  CHECK(at_1024(pax_header(pax_record("path", "x"), 'g')) ==
        "a pax header that sets 'path' for all members is not supported");
}

TEST_CASE("members that cannot be read rightly are errors", "[tar]") {
  const Tars tars;
  const auto at_second = [&](const std::string& before, const std::string& header) {
    const std::string text = tars.problem(before + header + kTarEnd);
    const std::string where = fmt::format("t.tar @ offset {}: error: ", before.size());
    return text.starts_with(where) ? text.substr(where.size()) : text;
  };
  const std::string holes = "a file with holes (GNU sparse format): make the tar without --sparse";
  CHECK(at_second(tar_member("a", ""), tar_header("s", 0, 'S', TarFormat::gnu)) == holes);
  CHECK(at_second("", pax_header(pax_record("GNU.sparse.major", "1")) + tar_member("s", "x")) ==
        holes);
  CHECK(at_second("", tar_header("m", 0, 'M', TarFormat::gnu)) ==
        "a file that begins in another volume: make the tar without --multi-volume");
  CHECK(at_second(pax_header(pax_record("size", "4")), tar_member("a", "123")) ==
        "'a' has two sizes: 3 in its header, 4 before it");
  CHECK(at_second(pax_header(pax_record("path", std::string(4097, 'n'))), tar_header("a", 0)) ==
        "a name of 4097 bytes, more than 4096");
  CHECK(at_second(pax_header(pax_record("path", std::string("a\0b", 3))), tar_header("a", 0)) ==
        "a name that contains NUL");
}

TEST_CASE("members of any size come back bit by bit", "[tar]") {
  const Tars tars;
  Rng rng(1, Purpose::synthetic, 0);
  for (int round = 0; round < 20; ++round) {
    Reads expected;
    std::string bytes;
    for (int64_t i = 0, count = rng.below(30); i <= count; ++i) {
      // Sizes near multiples of a block, and some larger than the reader's window.
      const int64_t near = std::max<int64_t>(0, 512 * rng.below(4) + rng.below(5) - 2);
      const int64_t size = rng.below(4) == 0 ? rng.below(20'000) : near;
      std::string content(static_cast<size_t>(size), '\0');
      for (char& c : content) c = static_cast<char>(rng.below(256));
      const std::string name =
          fmt::format("{}{}.bin", std::string(static_cast<size_t>(rng.below(250)), 'n'), i);
      if (name.size() <= 100)
        bytes += tar_member(name, content, rng.below(2) ? TarFormat::ustar : TarFormat::gnu);
      else if (rng.below(2))
        bytes += gnu_long_member(name, content);
      else
        bytes += pax_header(pax_record("path", name)) + tar_member("n", content);
      expected.push_back({name, content});
    }
    CHECK(tars.files(bytes + kTarEnd) == expected);
    // A cut anywhere before the end is an error, unless it leaves whole members.
    const size_t cut = static_cast<size_t>(rng.below(static_cast<int64_t>(bytes.size())));
    const std::string file = tars.write("cut.tar", bytes.substr(0, cut));
    try {
      const Reads found = files_of(file);
      CHECK(std::equal(found.begin(), found.end(), expected.begin()));
    } catch (const Error& error) {
      CHECK(error.code() == Exit::usage);
    }
  }
}

TEST_CASE("random bytes in a tar never do more than fail", "[tar]") {
  const Tars tars;
  const std::string good = pax_header(pax_record("path", "long") + pax_record("size", "5")) +
                           tar_member("a", "12345") + gnu_long_member("b.txt", "678") +
                           tar_header("d/", 0, '5') + kTarEnd;
  Rng rng(2, Purpose::synthetic, 0);
  for (int round = 0; round < 300; ++round) {
    std::string bad = good;
    const auto header =
        static_cast<size_t>(512 * rng.below(static_cast<int64_t>(good.size() / 512)));
    for (int64_t i = 0; i < 1 + rng.below(4); ++i)
      bad[header + static_cast<size_t>(rng.below(512))] = static_cast<char>(rng.below(256));
    if (round % 2) bad.replace(header, 512, with_checksum(bad.substr(header, 512)));
    const std::string file = tars.write("bad.tar", bad);
    try {
      for (const Read& read : files_of(file)) CHECK(read.content.size() <= good.size());
    } catch (const Error& error) {
      CHECK(error.code() == Exit::usage);
    }
  }
}

TEST_CASE("tars of the system's tar are read", "[tar]") {
  if (std::system("tar --version >/dev/null 2>&1") != 0) return;
  const Tars tars;
  const std::string folder = std::string(99, 'a') + "/" + std::string(99, 'b');
  const std::string long_name = folder + "/" + std::string(96, 'c') + ".txt";  // 300 bytes
  REQUIRE(long_name.size() == 300);
  tars.write("in/1.jpg", std::string(5000, 'j'));
  tars.write("in/2.cls", "7");
  tars.write("in/empty", "");
  tars.write("in/\xC3\xA4.txt", "umlaut");
  // The prefix has 155 bytes at most.
  const std::string ustar_name = std::string(99, 'a') + "/" + std::string(50, 'b') + "/c.txt";
  for (const std::string format : {"v7", "ustar", "gnu", "pax"}) {
    INFO(format);
    const std::string name = format == "v7" ? "c.txt" : format == "ustar" ? ustar_name : long_name;
    tars.write("in/" + name, "long");
    const std::string command =
        fmt::format("cd '{}' && tar --format={} -cf x.tar -C in 1.jpg 2.cls empty \xC3\xA4.txt {}",
                    tars.path(), format, name);
    REQUIRE(std::system(command.c_str()) == 0);
    CHECK(files_of(tars / "x.tar") == Reads{{"1.jpg", std::string(5000, 'j')},
                                            {"2.cls", "7"},
                                            {"empty", ""},
                                            {"\xC3\xA4.txt", "umlaut"},
                                            {name, "long"}});
  }
}

}  // namespace bv::test
