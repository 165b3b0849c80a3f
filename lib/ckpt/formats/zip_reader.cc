// Reads an archive from its end: the end record (and its zip64 form), the directory, the local
// headers.
#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string_view>

#include "lib/ckpt/formats/zip.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"
#include "lib/util/wrong_file.h"

namespace bv {

namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr uint64_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56, kEnd64LocatorBytes = 20;
constexpr uint32_t kIn64 = 0xffffffff;  // "see the zip64 record"
constexpr uint16_t kCountIn64 = 0xffff;
constexpr uint16_t kZip64Field = 1;
constexpr uint16_t kEncrypted = 0x2041, kSizesFollow = 0x8;  // general purpose flags

struct Directory {
  uint64_t begin = 0, end = 0, count = 0;
};

class DirectoryReader {
 public:
  DirectoryReader(std::span<const uint8_t> archive, const std::string& file)
      : archive_(archive), file_(file) {}

  std::vector<ZipEntry> read() const {
    const Directory directory = find_directory();
    // The count is checked before it is used: every entry takes some bytes of the directory.
    if (directory.count > (directory.end - directory.begin) / kDirectoryEntryBytes) {
      fail(directory.begin, fmt::format("{} entries do not fit in a directory of {} bytes",
                                        directory.count, directory.end - directory.begin));
    }
    std::vector<ZipEntry> entries;
    std::set<std::string> names;
    uint64_t at = directory.begin;
    for (uint64_t i = 0; i < directory.count; ++i) {
      const uint64_t entry_at = at;
      entries.push_back(read_entry(at, directory));
      if (!names.insert(entries.back().name).second) {
        fail(entry_at, fmt::format("'{}' appears twice", entries.back().name));
      }
    }
    if (at != directory.end) {
      fail(at, fmt::format("the directory ends here, but should end at offset {}", directory.end));
    }
    refuse_overlaps(entries);
    return entries;
  }

 private:
  [[noreturn]] void fail(uint64_t offset, const std::string& message) const {
    throw Error(Exit::usage, fmt::format("{} @ offset {}", file_, offset), message);
  }

  template <class T>
  T number(uint64_t offset) const {
    if (offset > archive_.size() || archive_.size() - offset < sizeof(T)) {
      fail(archive_.size(), "the file is cut off");
    }
    T value;
    std::memcpy(&value, archive_.data() + offset, sizeof(T));
    return value;
  }

  // The end record is at the end of the file, followed by a comment of up to 65535 bytes.
  uint64_t find_end() const {
    for (uint64_t comment = 0; comment <= 0xffff && comment + kEndBytes <= archive_.size();
         ++comment) {
      const uint64_t at = archive_.size() - kEndBytes - comment;
      if (number<uint32_t>(at) == kEnd && number<uint16_t>(at + 20) == comment) return at;
    }
    refuse_wrong_file(archive_, file_);
    fail(archive_.size(), "not a zip archive, or cut off: it has no end-of-directory record");
  }

  Directory find_directory() const {
    const uint64_t end = find_end();
    const auto disk = number<uint16_t>(end + 4), directory_disk = number<uint16_t>(end + 6);
    const auto here = number<uint16_t>(end + 8), count = number<uint16_t>(end + 10);
    const auto bytes = number<uint32_t>(end + 12), begin = number<uint32_t>(end + 16);
    if (disk != 0 || directory_disk != 0 || here != count) {
      fail(end, "archives in several parts are not supported");
    }
    Directory directory{begin, end, count};
    uint64_t announced = bytes;
    const bool needs64 = count == kCountIn64 || bytes == kIn64 || begin == kIn64;
    const bool has64 =
        end >= kEnd64LocatorBytes && number<uint32_t>(end - kEnd64LocatorBytes) == kEnd64Locator;
    if (needs64 && !has64) fail(end, "the zip64 locator before the end record is missing");
    // Python writes a zip64 record if the directory begins beyond 2 GiB. Up to 4 GiB its end record
    // still has the offset itself and does not refer to the zip64 record.
    if (has64) {
      const auto end64 = number<uint64_t>(end - kEnd64LocatorBytes + 8);
      if (end64 > end - kEnd64LocatorBytes || end - kEnd64LocatorBytes - end64 < kEnd64Bytes ||
          number<uint32_t>(end64) != kEnd64) {
        fail(end - kEnd64LocatorBytes, fmt::format("no zip64 end record at offset {}", end64));
      }
      if (number<uint32_t>(end64 + 16) != 0 || number<uint32_t>(end64 + 20) != 0 ||
          number<uint64_t>(end64 + 24) != number<uint64_t>(end64 + 32)) {
        fail(end64, "archives in several parts are not supported");
      }
      directory = {number<uint64_t>(end64 + 48), end64, number<uint64_t>(end64 + 32)};
      announced = number<uint64_t>(end64 + 40);
    }
    if (directory.begin > directory.end || directory.end - directory.begin != announced) {
      fail(end,
           fmt::format("the directory claims to have {} bytes at offset {}, which does not end "
                       "at its end record (offset {})",
                       announced, directory.begin, directory.end));
    }
    return directory;
  }

  // Reads the entry at `at` and moves `at` past it.
  ZipEntry read_entry(uint64_t& at, const Directory& directory) const {
    if (directory.end - at < kDirectoryEntryBytes || number<uint32_t>(at) != kDirectoryEntry) {
      fail(at, "expected a directory entry");
    }
    const auto flags = number<uint16_t>(at + 8), method = number<uint16_t>(at + 10);
    const uint64_t name_bytes = number<uint16_t>(at + 28), extra_bytes = number<uint16_t>(at + 30);
    const uint64_t comment_bytes = number<uint16_t>(at + 32);
    const uint64_t entry_bytes = kDirectoryEntryBytes + name_bytes + extra_bytes + comment_bytes;
    if (directory.end - at < entry_bytes) fail(at, "the entry goes beyond the directory");

    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char*>(archive_.data()) + at + kDirectoryEntryBytes,
                      name_bytes);
    check_name(entry.name, at);
    if ((flags & kEncrypted) != 0) fail(at, fmt::format("'{}' is encrypted", entry.name));
    if (method != kZipStored && method != kZipDeflated) {
      fail(at, fmt::format("'{}' is packed by method {}; known: 0 (stored), 8 (deflated)",
                           entry.name, method));
    }
    entry.deflated = method == kZipDeflated;
    entry.crc = number<uint32_t>(at + 16);
    entry.packed_bytes = number<uint32_t>(at + 20);
    entry.bytes = number<uint32_t>(at + 24);
    entry.header = number<uint32_t>(at + 42);
    if (number<uint16_t>(at + 34) != 0) fail(at, "archives in several parts are not supported");
    read_zip64(entry, at, at + kDirectoryEntryBytes + name_bytes, extra_bytes);
    check_sizes(entry, at);
    read_local_header(entry, directory, flags, method);
    at += entry_bytes;
    return entry;
  }

  void check_name(const std::string& name, uint64_t at) const {
    const auto parts = split(name, '/');
    const bool leaves = name.empty() || name.front() == '/' || name.find('\\') != name.npos ||
                        std::find(parts.begin(), parts.end(), "..") != parts.end();
    const bool unprintable = std::any_of(name.begin(), name.end(),
                                         [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (unprintable || !valid_utf8(name)) fail(at, "an entry's name is not printable UTF-8");
    if (leaves) fail(at, fmt::format("invalid entry name '{}'", name));
  }

  // Reads the sizes and the offset that do not fit in 32 bits from the extra field.
  void read_zip64(ZipEntry& entry, uint64_t at, uint64_t extra, uint64_t extra_bytes) const {
    std::vector<uint64_t*> wanted;
    for (uint64_t* value : {&entry.bytes, &entry.packed_bytes, &entry.header}) {
      if (*value == kIn64) wanted.push_back(value);
    }
    if (wanted.empty()) return;
    const uint64_t end = extra + extra_bytes;
    while (end - extra >= 4) {
      const auto id = number<uint16_t>(extra);
      const uint64_t bytes = number<uint16_t>(extra + 2);
      if (end - extra - 4 < bytes) break;
      if (id == kZip64Field && bytes >= 8 * wanted.size()) {
        for (size_t i = 0; i < wanted.size(); ++i) *wanted[i] = number<uint64_t>(extra + 4 + 8 * i);
        return;
      }
      extra += 4 + bytes;
    }
    fail(at, fmt::format("'{}': its zip64 field is missing or too short", entry.name));
  }

  void check_sizes(const ZipEntry& entry, uint64_t at) const {
    if (entry.packed_bytes > archive_.size()) {
      fail(at, fmt::format("'{}' claims to take {} bytes of a file of {}", entry.name,
                           entry.packed_bytes, archive_.size()));
    }
    if (!entry.deflated && entry.bytes != entry.packed_bytes) {
      fail(at, fmt::format("'{}' is stored, but has sizes {} and {}", entry.name,
                           entry.packed_bytes, entry.bytes));
    }
    if (entry.bytes > entry.packed_bytes * limits::kDeflateRatio) {
      fail(at, fmt::format("'{}' claims to grow from {} to {} bytes, more than deflate can "
                           "({} times)",
                           entry.name, entry.packed_bytes, entry.bytes, limits::kDeflateRatio));
    }
  }

  void read_local_header(ZipEntry& entry, const Directory& directory, uint16_t flags,
                         uint16_t method) const {
    const uint64_t at = entry.header;
    if (at > directory.begin || directory.begin - at < kLocalHeaderBytes ||
        number<uint32_t>(at) != kLocalHeader) {
      fail(at, fmt::format("no local header of '{}' here", entry.name));
    }
    const uint64_t name_bytes = number<uint16_t>(at + 26), extra_bytes = number<uint16_t>(at + 28);
    entry.data = at + kLocalHeaderBytes + name_bytes + extra_bytes;
    if (entry.data > directory.begin || directory.begin - entry.data < entry.packed_bytes) {
      fail(at, fmt::format("'{}' goes beyond the directory", entry.name));
    }
    const std::string_view name(
        reinterpret_cast<const char*>(archive_.data()) + at + kLocalHeaderBytes, name_bytes);
    bool agrees = name == entry.name && number<uint16_t>(at + 8) == method &&
                  ((number<uint16_t>(at + 6) ^ flags) & (kEncrypted | kSizesFollow)) == 0;
    if ((flags & kSizesFollow) == 0) {
      const auto packed = number<uint32_t>(at + 18), bytes = number<uint32_t>(at + 22);
      agrees = agrees && number<uint32_t>(at + 14) == entry.crc &&
               (packed == kIn64 || packed == entry.packed_bytes) &&
               (bytes == kIn64 || bytes == entry.bytes);
    }
    if (!agrees) {
      fail(at,
           fmt::format("the local header of '{}' does not agree with the directory", entry.name));
    }
  }

  void refuse_overlaps(std::vector<ZipEntry>& entries) const {
    std::sort(entries.begin(), entries.end(),
              [](const ZipEntry& a, const ZipEntry& b) { return a.header < b.header; });
    for (size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].header < entries[i - 1].data + entries[i - 1].packed_bytes) {
        fail(entries[i].header,
             fmt::format("'{}' overlaps '{}'", entries[i].name, entries[i - 1].name));
      }
    }
  }

  const std::span<const uint8_t> archive_;
  const std::string& file_;
};

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

}  // namespace

std::vector<ZipEntry> read_zip_directory(std::span<const uint8_t> archive,
                                         const std::string& file) {
  return DirectoryReader(archive, file).read();
}

void unpack(std::span<const uint8_t> archive, const ZipEntry& entry, const std::string& file,
            std::span<uint8_t> out) {
  check(out.size() == entry.bytes, "unpack: {} bytes for an entry of {}", out.size(), entry.bytes);
  const auto packed = archive.subspan(entry.data, entry.packed_bytes);
  const auto fail = [&](const char* what) {
    throw Error(Exit::usage, fmt::format("{} @ offset {}", file, entry.data),
                fmt::format("'{}': {}", entry.name, what));
  };
  if (entry.deflated) {
    const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(
        libdeflate_alloc_decompressor());
    if (decompressor == nullptr) throw std::bad_alloc();
    size_t used = 0;
    uint8_t none = 0;  // libdeflate needs an address even for no bytes
    // If it cannot return the output length, libdeflate requires it to be out.size().
    const auto result = libdeflate_deflate_decompress_ex(
        decompressor.get(), packed.data(), packed.size(), out.empty() ? &none : out.data(),
        out.size(), &used, nullptr);
    if (result != LIBDEFLATE_SUCCESS) fail("damaged: it does not unpack to its size");
    if (used != packed.size()) fail("damaged: bytes are left over after unpacking");
  } else if (!out.empty()) {
    std::memcpy(out.data(), packed.data(), out.size());
  }
  if (libdeflate_crc32(0, out.data(), out.size()) != entry.crc) fail("damaged: its CRC differs");
}

}  // namespace bv
