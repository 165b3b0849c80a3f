// Reading large files in parallel, chunk by chunk, with checksums: the counterpart of FileWriter.
//
// Files are read with pread(2), not mapped. An unreadable sector or a truncated file is an Error
// here. With a mapping it would raise SIGBUS, which ends the process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/util/error.h"
#include "lib/util/regular_file.h"

namespace bv {

class ChunkReader {
 public:
  // Bytes [begin, end) of the file, and the memory that they are copied to.
  struct Range {
    uint64_t begin = 0, end = 0;
    void* to = nullptr;
  };
  enum class Chunks { needed, all };

  // Opens `file`; throws Error like RegularFile. `checksums` are those of FileWriter:
  // the XXH3 of each chunk of FileWriter::kChunkBytes. They must outlive the reader. If there are
  // none, nothing is checked.
  explicit ChunkReader(std::string file, std::span<const uint64_t> checksums = {});

  uint64_t bytes() const { return opened_.size(); }
  // Fills the ranges, which must be inside the file and not overlap. The checksum of each chunk
  // that holds a byte of them is verified before anything is copied from it; with Chunks::all, so
  // are all others. Throws Error: Exit::storage if the disk fails, otherwise Exit::usage.
  void read(std::vector<Range> ranges, Chunks chunks = Chunks::needed) const;

 private:
  std::optional<Error> read_chunk(int64_t chunk, std::vector<char>& content) const;

  std::string file_;
  RegularFile opened_;
  std::span<const uint64_t> checksums_;
};

}  // namespace bv
