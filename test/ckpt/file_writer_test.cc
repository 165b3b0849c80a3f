// Writing large files, through the page cache and beside it.
#include "lib/ckpt/file_writer.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <vector>

#include "lib/util/mapped_file.h"
#include "lib/util/rng.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

constexpr size_t kWrittenChunk = FileWriter::kChunkBytes;

std::string noise(size_t bytes) {
  std::string text(bytes, '\0');
  Rng rng(1, Purpose::synthetic, 0);
  for (char& byte : text) byte = static_cast<char>(rng.bits());
  return text;
}

// Writes `content` in pieces of several sizes. Returns the checksums.
std::vector<uint64_t> write_in_parts(const std::string& file, std::string_view content,
                                     PageCache cache) {
  FileWriter out(file, cache);
  for (size_t part = 1; !content.empty(); part = 7 * part + 1) {
    out.write(content.substr(0, part));
    content.remove_prefix(std::min(part, content.size()));
  }
  out.finish();
  return out.checksums();
}

// How many of the first `bytes` of a file are in the page cache.
size_t cached_bytes(const std::string& file, size_t bytes) {
  const MappedFile mapped(file);
  std::vector<unsigned char> pages(bytes / 4096);
  REQUIRE(::mincore(const_cast<uint8_t*>(mapped.bytes().data()), bytes, pages.data()) == 0);
  size_t count = 0;
  for (const unsigned char page : pages) count += page & 1;
  return 4096 * count;
}

}  // namespace

TEST_CASE("a file is the same whether it is written through the page cache or beside it") {
  const TempFolder disk;
  const MemoryFolder memory;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, kWrittenChunk - 1, kWrittenChunk,
                             kWrittenChunk + 1, kWrittenChunk + 4096, 5 * kWrittenChunk / 2 + 3}) {
    INFO(bytes);
    const std::string content = noise(bytes);
    const std::vector<uint64_t> checksums = write_in_parts(disk / "a", content, PageCache::keep);
    CHECK(checksums.size() == (bytes + kWrittenChunk - 1) / kWrittenChunk);
    for (const TempFolder* folder : {&disk, static_cast<const TempFolder*>(&memory)}) {
      CHECK(write_in_parts(*folder / "b", content, PageCache::bypass) == checksums);
      CHECK(read_text(*folder / "b") == content);
    }
    CHECK(read_text(disk / "a") == content);
  }
}

TEST_CASE("a file written beside the page cache takes no room in it") {
  const TempFolder folder;
  struct statfs info {};
  REQUIRE(::statfs(folder.path().c_str(), &info) == 0);
  if (info.f_type != EXT4_SUPER_MAGIC && info.f_type != XFS_SUPER_MAGIC) {
    WARN("skipped: the folder for temporary files is neither on ext4 nor on XFS");
    return;
  }
  const std::string content = noise(3 * kWrittenChunk + 5);
  write_in_parts(folder / "a", content, PageCache::keep);
  write_in_parts(folder / "b", content, PageCache::bypass);
  CHECK(cached_bytes(folder / "a", 3 * kWrittenChunk) == 3 * kWrittenChunk);
  CHECK(cached_bytes(folder / "b", 3 * kWrittenChunk) == 0);
}

TEST_CASE("a write that stops in the middle of a block names its reason") {
  const TempFolder folder;
  ::signal(SIGXFSZ, SIG_IGN);
  for (const PageCache cache : {PageCache::keep, PageCache::bypass}) {
    const std::string file = folder / "a";
    std::string line;
    {
      const Limit limit(RLIMIT_FSIZE, kWrittenChunk + 100);
      line =
          error_of([&] { write_in_parts(file, noise(2 * kWrittenChunk), cache); }, Exit::storage);
    }
    CHECK(line == file + ": error: cannot write: File too large");
    CHECK(read_text(file).size() == kWrittenChunk + 100);
  }
  ::signal(SIGXFSZ, SIG_DFL);
}

TEST_CASE("errors of replace_file name the file, not the temporary one") {
  const TempFolder folder;
  const auto message = [&](const std::string& name, std::string_view from) {
    return error_of(
        [&] {
          replace_file(folder / name, [&](FileWriter& out) {
            if (!from.empty()) throw Error(Exit::storage, from, "is damaged");
            out.write("x");
          });
        },
        Exit::storage);
  };
  CHECK(message("none/a.npz", "") ==
        folder / "none/a.npz: error: cannot create: No such file or directory");
  CHECK(message("a.npz", "source") == "source: error: is damaged");
  CHECK(message("a.npz", "") == "");
  CHECK(read_text(folder / "a.npz") == "x");
}

TEST_CASE("replace_file keeps a symbolic link and replaces the file to which it leads") {
  const TempFolder folder;
  const auto replace = [&](const std::string& name, const std::string& content) {
    replace_file(folder / name, [&](FileWriter& out) { out.write(content); });
  };
  std::filesystem::create_directory(folder / "other");
  replace("other/file", "old");
  std::filesystem::create_symlink("other/second", folder / "first");  // relative to the folder
  std::filesystem::create_symlink(folder / "other/file", folder / "other/second");
  replace("first", "new");
  CHECK(std::filesystem::is_symlink(folder / "first"));
  CHECK(std::filesystem::is_symlink(folder / "other/second"));
  CHECK_FALSE(std::filesystem::is_symlink(folder / "other/file"));
  CHECK(read_text(folder / "other/file") == "new");

  std::filesystem::create_symlink("other/absent", folder / "dangling");
  replace("dangling", "x");
  CHECK(std::filesystem::is_symlink(folder / "dangling"));
  CHECK(read_text(folder / "other/absent") == "x");
  // No temporary file is left.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 3);
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "other"), {}) == 3);
}

}  // namespace bv::test
