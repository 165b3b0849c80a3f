// Reading files in chunks: any ranges, and files that change while they are open.
#include "lib/ckpt/chunk_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <system_error>

#include "lib/ckpt/file_writer.h"
#include "lib/util/descriptor.h"
#include "test/ckpt/support.h"

namespace bv::test {
namespace {

using Chunks = ChunkReader::Chunks;
constexpr uint64_t kReadChunk = FileWriter::kChunkBytes;

// A file of two and a half chunks of noise.
struct Written {
  MemoryFolder folder;
  std::string file = folder / "a", content;
  std::vector<uint64_t> checksums;
  Written() {
    std::mt19937_64 random(5);
    content.resize(5 * kReadChunk / 2);
    for (size_t i = 0; i + 8 <= content.size(); i += 8) {
      const uint64_t word = random();
      std::memcpy(content.data() + i, &word, 8);
    }
    FileWriter out(file);
    out.write(content);
    out.finish();
    checksums = out.checksums();
  }
  void damage(uint64_t at) const {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(content[at] ^ 1));
  }
};

}  // namespace

TEST_CASE("chunk reader: any ranges of a file, in any order") {
  const Written w;
  const ChunkReader reader(w.file, w.checksums);
  CHECK(reader.bytes() == w.content.size());
  for (const Chunks chunks : {Chunks::needed, Chunks::all}) {
    const std::vector<std::pair<uint64_t, uint64_t>> bounds = {
        {kReadChunk - 3, 2 * kReadChunk + 5},
        {0, 1},
        {7, 7},
        {w.content.size() - 1, w.content.size()},
        {1, 100}};
    std::vector<std::string> read;
    for (const auto& [begin, end] : bounds) read.emplace_back(end - begin, '\0');
    std::vector<ChunkReader::Range> ranges;
    for (size_t i = 0; i < bounds.size(); ++i)
      ranges.push_back({bounds[i].first, bounds[i].second, read[i].data()});
    reader.read(ranges, chunks);
    for (size_t i = 0; i < bounds.size(); ++i)
      CHECK(read[i] == w.content.substr(bounds[i].first, bounds[i].second - bounds[i].first));
  }
}

TEST_CASE("chunk reader: checks the chunks that it needs, or all") {
  const Written w;
  w.damage(kReadChunk + 9);
  const ChunkReader reader(w.file, w.checksums);
  char byte = 0;
  CHECK_NOTHROW(reader.read({{kReadChunk - 1, kReadChunk, &byte}}));
  CHECK(byte == w.content[kReadChunk - 1]);
  const std::string line = w.file + ": error: checksum of chunk 1 (offset 1048576) differs";
  CHECK(error_of([&] { reader.read({{kReadChunk, kReadChunk + 1, &byte}}); }) == line);
  CHECK(error_of([&] { reader.read({{0, 1, &byte}}, Chunks::all); }) == line);
  CHECK(error_of([&] { reader.read({}, Chunks::all); }) == line);
}

// A disk that fails for a moment must not make a run go back to an older checkpoint.
TEST_CASE("chunk reader: a disk that cannot be read is not a damaged file") {
  const Written w;
  const ChunkReader reader(w.file, w.checksums);
  // Reads of the open file now fail with EIO: this process has no memory at such low addresses.
  const Descriptor memory("/proc/self/mem", O_RDONLY);
  const std::filesystem::path file = std::filesystem::canonical(w.file);
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(open.path(), error) == file)
      ::dup2(memory.get(), std::stoi(open.path().filename().string()));
  }
  CHECK(error_of([&] { reader.read({}, Chunks::all); }, Exit::storage) ==
        w.file + ": error: cannot read: Input/output error (offset 0)");
}

// With a mapping this was SIGBUS.
TEST_CASE("chunk reader: a file that is cut off while it is open is an error") {
  const Written w;
  const ChunkReader reader(w.file);
  std::filesystem::resize_file(w.file, kReadChunk + 10);
  std::string all(w.content.size(), '\0');
  CHECK(error_of([&] {
          reader.read({{0, all.size(), all.data()}});
        }) == w.file + ": error: was cut off at offset 1048586 while it was read");
}

}  // namespace bv::test
