// Deflated entries are packed in memory, because the local header, which comes first, holds their
// sizes.
#include <libdeflate.h>

#include <memory>
#include <new>
#include <type_traits>

#include "lib/ckpt/formats/zip.h"
#include "lib/util/error.h"

namespace bv {

namespace {

constexpr int kLevel = 6;
constexpr uint16_t kVersion = 20, kVersion64 = 45;
constexpr uint16_t kDate = (1 << 5) | 1;  // 1 January 1980, the first possible date
constexpr uint16_t kUtf8Name = 0x800;

struct FreeCompressor {
  void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
};

// Collects the fields of a record, little-endian.
class ZipRecord {
 public:
  template <class T>
  ZipRecord& add(std::type_identity_t<T> value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

uint16_t flags_of(const std::string& name) {
  for (const char c : name) {
    if (static_cast<unsigned char>(c) >= 0x80) return kUtf8Name;
  }
  return 0;
}

uint16_t method_of(const ZipEntry& entry) { return entry.deflated ? kZipDeflated : kZipStored; }

}  // namespace

void ZipWriter::add(const std::string& name, std::span<const uint8_t> content) {
  const std::unique_ptr<libdeflate_compressor, FreeCompressor> compressor(
      libdeflate_alloc_compressor(kLevel));
  if (compressor == nullptr) throw std::bad_alloc();
  std::vector<uint8_t> packed(libdeflate_deflate_compress_bound(compressor.get(), content.size()));

  ZipEntry entry;
  entry.name = name;
  entry.deflated = true;
  entry.bytes = content.size();
  entry.packed_bytes = libdeflate_deflate_compress(compressor.get(), content.data(), content.size(),
                                                   packed.data(), packed.size());
  check(entry.packed_bytes > 0, "'{}' did not fit in its bound", name);
  entry.crc = libdeflate_crc32(0, content.data(), content.size());
  begin(entry);
  out_.write(packed.data(), entry.packed_bytes);
  entries_.push_back(entry);
}

void ZipWriter::store(const std::string& name, std::string_view header,
                      std::span<const uint8_t> content) {
  ZipEntry entry;
  entry.name = name;
  entry.bytes = entry.packed_bytes = header.size() + content.size();
  entry.crc = libdeflate_crc32(libdeflate_crc32(0, header.data(), header.size()), content.data(),
                               content.size());
  begin(entry);
  out_.write(header);
  out_.write(content.data(), content.size());
  entries_.push_back(entry);
}

bool ZipWriter::is_big(const ZipEntry& entry) const {
  return entry.bytes >= zip64_from_ || entry.packed_bytes >= zip64_from_;
}

void ZipWriter::begin(ZipEntry& entry) {
  const std::string& name = entry.name;
  check(!name.empty() && name.size() <= 0xffff, "a zip entry's name has {} bytes", name.size());
  entry.header = out_.bytes();
  const bool big = is_big(entry);
  ZipRecord local;
  local.add<uint32_t>(0x04034b50).add<uint16_t>(big ? kVersion64 : kVersion);
  local.add<uint16_t>(flags_of(name)).add<uint16_t>(method_of(entry));
  local.add<uint16_t>(0).add<uint16_t>(kDate);
  local.add<uint32_t>(entry.crc);
  local.add<uint32_t>(big ? 0xffffffff : static_cast<uint32_t>(entry.packed_bytes));
  local.add<uint32_t>(big ? 0xffffffff : static_cast<uint32_t>(entry.bytes));
  local.add<uint16_t>(static_cast<uint16_t>(name.size())).add<uint16_t>(big ? 20 : 0);
  out_.write(local.text());
  out_.write(name);
  if (big) {
    ZipRecord extra;
    extra.add<uint16_t>(1).add<uint16_t>(16).add<uint64_t>(entry.bytes);
    extra.add<uint64_t>(entry.packed_bytes);
    out_.write(extra.text());
  }
}

void ZipWriter::finish() {
  const uint64_t begin = out_.bytes();
  for (const ZipEntry& entry : entries_) {
    const bool big = is_big(entry) || entry.header >= zip64_from_;
    const auto low = [&](uint64_t value) {
      return big ? 0xffffffff : static_cast<uint32_t>(value);
    };
    ZipRecord record;
    record.add<uint32_t>(0x02014b50).add<uint16_t>(big ? kVersion64 : kVersion);
    record.add<uint16_t>(big ? kVersion64 : kVersion).add<uint16_t>(flags_of(entry.name));
    record.add<uint16_t>(method_of(entry)).add<uint16_t>(0).add<uint16_t>(kDate);
    record.add<uint32_t>(entry.crc);
    record.add<uint32_t>(low(entry.packed_bytes)).add<uint32_t>(low(entry.bytes));
    record.add<uint16_t>(static_cast<uint16_t>(entry.name.size())).add<uint16_t>(big ? 28 : 0);
    record.add<uint16_t>(0).add<uint16_t>(0).add<uint16_t>(0).add<uint32_t>(0);
    record.add<uint32_t>(low(entry.header));
    out_.write(record.text());
    out_.write(entry.name);
    if (big) {
      ZipRecord extra;
      extra.add<uint16_t>(1).add<uint16_t>(24).add<uint64_t>(entry.bytes);
      extra.add<uint64_t>(entry.packed_bytes).add<uint64_t>(entry.header);
      out_.write(extra.text());
    }
  }

  const uint64_t end = out_.bytes(), count = entries_.size();
  const bool big = count >= 0xffff || begin >= zip64_from_ || end - begin >= zip64_from_;
  if (big) {
    ZipRecord end64;
    end64.add<uint32_t>(0x06064b50).add<uint64_t>(44).add<uint16_t>(kVersion64);
    end64.add<uint16_t>(kVersion64).add<uint32_t>(0).add<uint32_t>(0).add<uint64_t>(count);
    end64.add<uint64_t>(count).add<uint64_t>(end - begin).add<uint64_t>(begin);
    end64.add<uint32_t>(0x07064b50).add<uint32_t>(0).add<uint64_t>(end).add<uint32_t>(1);
    out_.write(end64.text());
  }
  ZipRecord tail;
  tail.add<uint32_t>(0x06054b50).add<uint16_t>(0).add<uint16_t>(0);
  tail.add<uint16_t>(big ? 0xffff : static_cast<uint16_t>(count));
  tail.add<uint16_t>(big ? 0xffff : static_cast<uint16_t>(count));
  tail.add<uint32_t>(big ? 0xffffffff : static_cast<uint32_t>(end - begin));
  tail.add<uint32_t>(big ? 0xffffffff : static_cast<uint32_t>(begin)).add<uint16_t>(0);
  out_.write(tail.text());
}

}  // namespace bv
