// Zip archives: the central directory with every check, stored and deflated entries, zip64. The
// reader takes nothing for granted: no encryption, no other methods, no names that could leave a
// folder, no overlapping entries, no entry that claims to grow more than deflate can. Torch-free.
// Format: APPNOTE.TXT 6.3.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/ckpt/file_writer.h"

namespace bv {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  uint64_t packed_bytes = 0;  // in the archive
  uint64_t bytes = 0;         // unpacked; at most 1032 times packed_bytes, equal to it if stored
  uint64_t header = 0;        // offset of the local header, for messages
  uint64_t data = 0;          // offset of the packed bytes
};

// Entries in order of their place in `archive`, the whole of `file`. Throws Error(Exit::usage)
// "file @ offset N: ...".
std::vector<ZipEntry> read_zip_directory(std::span<const uint8_t> archive, const std::string& file);

// Unpacks into `out` (entry.bytes of them) and checks length and CRC. Throws Error(Exit::usage).
void unpack(std::span<const uint8_t> archive, const ZipEntry& entry, const std::string& file,
            std::span<uint8_t> out);

// Writes deflated entries with a fixed time stamp: equal content gives equal bytes.
class ZipWriter {
 public:
  // Sizes and offsets from `zip64_from` on are written as zip64 (tests set it low).
  explicit ZipWriter(FileWriter& out, uint64_t zip64_from = 0xffffffff)
      : out_(out), zip64_from_(zip64_from) {}

  void add(const std::string& name, std::span<const uint8_t> content);
  void finish();  // the directory; the caller finishes the file

 private:
  FileWriter& out_;
  const uint64_t zip64_from_;
  std::vector<ZipEntry> entries_;
};

}  // namespace bv
