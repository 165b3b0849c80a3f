// Zip archives: stored and deflated entries, zip64. Needs no torch. Format: APPNOTE.TXT 6.3.
//
// The reader trusts nothing: it rejects encryption, other methods, names that could lead out of a
// folder, overlapping entries, and entries that claim to grow by more than deflate can achieve.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ckpt/file_writer.h"

namespace bv {

inline constexpr uint16_t kZipStored = 0, kZipDeflated = 8;  // compression methods

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  uint64_t packed_bytes = 0;  // in the archive
  uint64_t bytes = 0;         // unpacked: at most 1032 * packed_bytes; equal to it if stored
  uint64_t header = 0;        // offset of the local header, for messages
  uint64_t data = 0;          // offset of the packed bytes
};

// Returns all entries in the order of their data. `archive` is the whole content of `file`. Throws
// Error(Exit::usage) "file @ offset N: error: ...".
std::vector<ZipEntry> read_zip_directory(std::span<const uint8_t> archive, const std::string& file);

// Unpacks an entry into `out`, which must have entry.bytes bytes, and checks its length and CRC.
// Throws Error(Exit::usage).
void unpack(std::span<const uint8_t> archive, const ZipEntry& entry, const std::string& file,
            std::span<uint8_t> out);

// Writes an archive. The time stamps are fixed, so that equal content gives equal bytes.
class ZipWriter {
 public:
  // Sizes and offsets of `zip64_from` or more are written as zip64. Tests pass a low limit.
  explicit ZipWriter(FileWriter& out, uint64_t zip64_from = 0xffffffff)
      : out_(out), zip64_from_(zip64_from) {}

  // Adds a deflated entry. This takes memory for the packed content, of about the same size.
  void add(const std::string& name, std::span<const uint8_t> content);
  // Adds an entry that is not packed: `header` followed by `content`.
  void store(const std::string& name, std::string_view header, std::span<const uint8_t> content);
  void finish();  // writes the directory; the caller finishes the file

 private:
  bool is_big(const ZipEntry& entry) const;
  // Writes the header that precedes the packed bytes.
  void begin(ZipEntry& entry);

  FileWriter& out_;
  const uint64_t zip64_from_;
  std::vector<ZipEntry> entries_;
};

}  // namespace bv
