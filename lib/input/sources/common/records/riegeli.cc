#include "lib/input/sources/common/records/riegeli.h"

#include <ATen/ops/empty.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/input/sources/common/records/highway_hash.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/protobuf_reader.h"

namespace bv {
namespace {

constexpr uint64_t kBlockHead = 24;
constexpr uint64_t kChunkHead = 40;

[[noreturn]] void fail_riegeli(std::string_view why) { throw Error::bare(Exit::data, why); }

uint64_t load_word(const uint8_t* bytes) {  // little endian
  uint64_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

uint64_t checksum(std::span<const uint8_t> bytes) {
  static const std::array<uint64_t, 4> key = [] {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), "Riegeli/records\nRiegeli/records\n", sizeof(words));
    return words;
  }();
  return highway_hash(key, bytes);
}

// Reads chunks piece by piece and skips the block headers.
class RiegeliReader {
 public:
  RiegeliReader(const ShardFiles& files, size_t file, uint64_t file_size, uint64_t offset)
      : files_(files), file_(file), file_size_(file_size), at_(offset) {}

  void read(uint8_t* out, uint64_t size) {
    if (at_ > file_size_ || size > file_size_ - at_) fail_riegeli("the file ends inside a chunk");
    while (size > 0) {
      if (at_ % kRiegeliBlock < kBlockHead) at_ += kBlockHead - at_ % kRiegeliBlock;
      const uint64_t part = std::min(size, kRiegeliBlock - at_ % kRiegeliBlock);
      files_.read(file_, at_, part, out);
      out += part;
      at_ += part;
      size -= part;
    }
  }

 private:
  const ShardFiles& files_;
  size_t file_;
  uint64_t file_size_, at_;
};

// Returns the bytes of a part of a chunk, and unpacks them if `packed`. A packed part begins with
// its unpacked size.
at::Tensor unpack_part(std::span<const uint8_t> part, bool packed) {
  const uint64_t size = packed ? protobuf::take_varint(part) : part.size();
  if (size > limits::kRecordBytes)
    fail_riegeli(fmt::format("a chunk of {} bytes; the limit is {}", size, limits::kRecordBytes));
  if (packed && size > limits::kZstdRatio * part.size())
    fail_riegeli(fmt::format("claims to unpack from {} bytes to {}", part.size(), size));
  at::Tensor bytes = at::empty({static_cast<int64_t>(size)}, at::kByte);
  auto* out = bytes.mutable_data_ptr<uint8_t>();
  if (!packed) {
    if (size > 0) std::memcpy(out, part.data(), size);
    return bytes;
  }
  const size_t got = ZSTD_decompress(out, size, part.data(), part.size());
  if (ZSTD_isError(got))
    fail_riegeli(fmt::format("cannot be unpacked: {}", ZSTD_getErrorName(got)));
  if (got != size) fail_riegeli("is shorter than it says");
  return bytes;
}

// Unpacks the data of a simple chunk: the compression type, the size of the packed sizes, the sizes
// of the records, and the records.
RiegeliRecords unpack_simple(std::span<const uint8_t> data, uint64_t records) {
  if (data.empty()) fail_riegeli("a chunk of records without data");
  const uint8_t packing = data[0];
  if (packing != 0 && packing != 'z') {
    fail_riegeli(fmt::format("is packed with {}; only zstd can be read",
                             packing == 'b'   ? "Brotli"
                             : packing == 's' ? "Snappy"
                                              : "an unknown method"));
  }
  data = data.subspan(1);
  const uint64_t sizes_size = protobuf::take_varint(data);
  if (sizes_size > data.size()) fail_riegeli("the sizes of the records are cut off");
  const at::Tensor sizes = unpack_part(data.first(sizes_size), packing != 0);
  RiegeliRecords result;
  result.bytes = unpack_part(data.subspan(sizes_size), packing != 0);
  std::span<const uint8_t> rest(sizes.const_data_ptr<uint8_t>(),
                                static_cast<size_t>(sizes.numel()));
  if (records > rest.size()) fail_riegeli("has fewer records than it says");
  const auto total = static_cast<uint64_t>(result.bytes.numel());
  uint64_t end = 0;
  for (uint64_t i = 0; i < records; ++i) {
    const uint64_t size = protobuf::take_varint(rest);
    if (size > total - end) fail_riegeli("a record is longer than its chunk");
    end += size;
    result.ends.push_back(end);
  }
  if (end != total || !rest.empty()) fail_riegeli("the sizes of the records do not add up");
  return result;
}

}  // namespace

at::Tensor RiegeliRecords::record(size_t i) const {
  return bytes.slice(0, static_cast<int64_t>(i == 0 ? 0 : ends[i - 1]),
                     static_cast<int64_t>(ends[i]));
}

RiegeliRecords read_riegeli_chunk(const ShardFiles& files, size_t file, uint64_t file_size,
                                  uint64_t offset, bool verify) {
  // The header: its checksum, the size and the checksum of the data, the type (1 byte) and the
  // number of records (7 bytes), and the size of all records.
  RiegeliReader reader(files, file, file_size, offset);
  std::array<uint8_t, kChunkHead> head;
  reader.read(head.data(), head.size());
  if (load_word(head.data()) != checksum(std::span(head).subspan(8)))
    fail_riegeli("the checksum of a chunk's head is wrong");
  const uint64_t size = load_word(head.data() + 8), records = load_word(head.data() + 24) >> 8;
  if (head[24] != 'r') {
    fail_riegeli(head[24] == 't'
                     ? "a transposed chunk, which cannot be read; write the file without "
                       "the option 'transpose'"
                     : "is not a chunk of records");
  }
  if (size > limits::kRecordBytes)
    fail_riegeli(fmt::format("a chunk of {} bytes; the limit is {}", size, limits::kRecordBytes));
  if (size > file_size) fail_riegeli("the file ends inside a chunk");
  if (records > limits::kChunkRecords)
    fail_riegeli(
        fmt::format("a chunk of {} records; the limit is {}", records, limits::kChunkRecords));
  std::vector<uint8_t> data(size);
  reader.read(data.data(), size);
  if (verify && load_word(head.data() + 16) != checksum(data))
    fail_riegeli("the checksum of a chunk's data is wrong");
  return unpack_simple(data, records);
}

}  // namespace bv
