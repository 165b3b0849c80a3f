// Riegeli files (github.com/google/riegeli, doc/riegeli_records_file_format.md): a list of chunks
// with checksums. Each 64 KiB block of the file begins with a header of 24 bytes, which interrupts
// whatever chunk is there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/input/sources/common/shard_files.h"

namespace bv {

// Bytes of a block.
inline constexpr uint64_t kRiegeliBlock = uint64_t{1} << 16;

// The records of a chunk, one after the other.
struct RiegeliRecords {
  at::Tensor bytes;            // (n,) uint8
  std::vector<uint64_t> ends;  // (records,) where each ends in `bytes`

  // Returns record `i`, which shares the memory of `bytes`.
  at::Tensor record(size_t i) const;
};

// Reads the chunk at `offset` of a file of `file_size` bytes. `verify`: compare the checksum of its
// data; the checksum of its header is always compared. Throws Error::bare(Exit::data) if it is
// damaged, is not a chunk of records, is larger than 1 GiB, or is compressed with anything but
// zstd.
RiegeliRecords read_riegeli_chunk(const ShardFiles& files, size_t file, uint64_t file_size,
                                  uint64_t offset, bool verify);

}  // namespace bv
