// Writers for protobuf messages, TFRecord and ArrayRecord files.
#pragma once

#include <zstd.h>

#include <array>
#include <cstring>

#include "lib/input/sources/common/records/highway_hash.h"
#include "lib/util/crc32c.h"
#include "test/support/bad_data/bad_data.h"

namespace bv::test {

inline std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
// Returns a field of a protobuf message that holds bytes, or a number.
inline std::string bytes_field(int number, const std::string& content) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(content.size()) + content;
}
inline std::string number_field(int number, uint64_t value) {
  return varint(static_cast<uint64_t>(number) << 3) + varint(value);
}

// Returns a tf.train.Example. The features are messages Feature.
inline std::string tf_example(const Files& features) {
  std::string map;
  for (const auto& [name, feature] : features)
    map += bytes_field(1, bytes_field(1, name) + bytes_field(2, feature));
  return bytes_field(1, map);
}
inline std::string bytes_feature(const std::string& value) {
  return bytes_field(1, bytes_field(1, value));
}
inline std::string label_feature(uint64_t value) {
  return bytes_field(3, bytes_field(1, varint(value)));
}

inline std::string masked_checksum(const std::string& bytes) {
  const uint32_t crc = crc32c(bytes);
  return little(((crc >> 15) | (crc << 17)) + 0xA282EAD8U, 4);
}
// Returns the length of a TFRecord with its checksum.
inline std::string tfrecord_head(uint64_t size) {
  return little(size, 8) + masked_checksum(little(size, 8));
}
inline std::string tfrecord(const std::string& data) {
  return tfrecord_head(data.size()) + data + masked_checksum(data);
}

inline std::string riegeli_checksum(const std::string& bytes) {
  std::array<uint64_t, 4> key;
  std::memcpy(key.data(), "Riegeli/records\nRiegeli/records\n", sizeof(key));
  return little(highway_hash(key, bytes_of(bytes)), 8);
}
// Returns a chunk of a Riegeli file with this data, and correct checksums.
inline std::string riegeli_chunk(const std::string& data, uint64_t records, char type = 'r') {
  const std::string head = little(data.size(), 8) + riegeli_checksum(data) + type +
                           little(records, 7) + little(data.size(), 8);
  return riegeli_checksum(head) + head + data;
}
// Returns the data of a chunk that is not packed.
inline std::string plain_records(const std::vector<std::string>& records) {
  std::string sizes, all;
  for (const std::string& record : records) {
    sizes += varint(record.size());
    all += record;
  }
  return std::string(1, '\0') + varint(sizes.size()) + sizes + all;
}
// Returns an ArrayRecord file with these chunks and this table of contents, which together have
// less than 64 KiB.
inline std::string array_record_with_table(const std::string& chunks, const std::string& table,
                                           uint64_t magic) {
  constexpr size_t kBlock = 65536;
  std::string file = std::string(24, '\0') + riegeli_chunk("", 0, 's') + chunks;
  const uint64_t footer = file.size();
  file += table;
  file.resize(kBlock + 24);
  return file + riegeli_chunk(plain_records({number_field(1, footer) + number_field(2, magic)}), 1);
}
// Returns an ArrayRecord file with one chunk for each element of `chunks`.
inline std::string array_record_file(const std::vector<std::string>& chunks, uint64_t magic,
                                     uint64_t records_in_chunk = 1) {
  std::string all;
  std::vector<std::string> table = {""};
  for (const std::string& chunk : chunks) {
    constexpr size_t kFirst = 64;  // the first chunk begins after a block's header and a chunk
    table.push_back(number_field(1, kFirst + all.size()) + number_field(2, 9) +
                    number_field(3, records_in_chunk));
    all += chunk;
  }
  return array_record_with_table(all, riegeli_chunk(plain_records(table), table.size()), magic);
}
inline constexpr uint64_t kArrayRecordMagic = 0x71930E704FDAE05E;

// Returns data packed by zstd with the unpacked size before them.
inline std::string zstd_part(const std::string& text, uint64_t claimed) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return varint(claimed) + packed;
}

}  // namespace bv::test
