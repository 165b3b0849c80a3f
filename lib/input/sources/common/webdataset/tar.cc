// Formats: POSIX.1-2017 pax (which includes ustar), and the chapter "Basic Tar Format" of the GNU
// tar manual.
#include "lib/input/sources/common/webdataset/tar.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/printable.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

constexpr uint64_t kWindow = 4096;

// A field of a header: its offset and its length in bytes.
struct TarField {
  size_t at, length;
};
constexpr TarField kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kType{156, 1}, kLink{157, 100},
    kMagic{257, 8}, kPrefix{345, 155};

std::string_view raw(std::span<const uint8_t> block, TarField field) {
  return {reinterpret_cast<const char*>(block.data()) + field.at, field.length};
}

// Returns a field of text, which a NUL ends unless it is full.
std::string_view field_text(std::span<const uint8_t> block, TarField field) {
  const std::string_view text = raw(block, field);
  return text.substr(0, text.find('\0'));
}

// Returns a number in octal digits, after spaces and before spaces or NULs; nullopt if the field is
// not such a number.
std::optional<uint64_t> octal(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  uint64_t value = 0;  // at most 12 digits: no overflow
  while (!text.empty() && text[0] >= '0' && text[0] <= '7') {
    value = value * 8 + static_cast<uint64_t>(text[0] - '0');
    text.remove_prefix(1);
  }
  if (text.find_first_not_of(std::string_view("\0 ", 2)) != std::string_view::npos)
    return std::nullopt;
  return value;
}

// Returns the size in a header: octal digits or, if the first bit is set, a number in base 256.
std::optional<uint64_t> size_of(std::span<const uint8_t> block) {
  const std::span<const uint8_t> field = block.subspan(kSize.at, kSize.length);
  if (field[0] < 0x80) return octal(raw(block, kSize));
  if (field[0] != 0x80) return std::nullopt;  // negative, or larger than any file
  uint64_t value = 0;
  for (const uint8_t byte : field.subspan(1)) {
    if (value >> 55 != 0) return std::nullopt;
    value = value << 8 | byte;
  }
  return value;
}

bool has_checksum(std::span<const uint8_t> block) {
  const std::optional<uint64_t> expected = octal(raw(block, kChecksum));
  if (!expected) return false;
  int64_t sum = 0, signed_sum = 0;  // some old programs add signed bytes
  for (size_t i = 0; i < kTarBlock; ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.length;
    const uint8_t byte = own ? ' ' : block[i];
    sum += byte;
    signed_sum += static_cast<int8_t>(byte);
  }
  const auto value = static_cast<int64_t>(*expected);
  return value == sum || value == signed_sum;
}

bool all_zero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

std::string name_of(std::span<const uint8_t> block) {
  const std::string name(field_text(block, kName));
  // GNU's magic is "ustar  ", and GNU uses other fields instead of the prefix.
  if (!raw(block, kMagic).starts_with(std::string_view("ustar\0", 6))) return name;
  const std::string_view prefix = field_text(block, kPrefix);
  return prefix.empty() ? name : fmt::format("{}/{}", prefix, name);
}

// Returns the type of a member as TarMember::type has it.
char member_type(std::span<const uint8_t> block, std::string_view name) {
  const char type = raw(block, kType)[0];
  if (type != '\0' && type != '0' && type != '7') return type;
  return name.ends_with('/') ? '5' : '0';  // version 7 has no type for folders
}

bool has_content(char type) {
  // Links, devices, folders and pipes have none, whatever their size says.
  return std::string_view("123456").find(type) == std::string_view::npos;
}

struct PackedFormat {
  std::string_view magic, name, unpack;
};
constexpr PackedFormat kPacked[] = {
    {"\x1f\x8b", "gzip", "gunzip"},
    {"\x28\xb5\x2f\xfd", "zstd", "unzstd"},
    {"BZh", "bzip2", "bunzip2"},
    {std::string_view("\xfd"
                      "7zXZ\0",
                      6),
     "xz", "unxz"},
};

// Returns the kind of a file that is not a tar; empty if its first bytes do not show it.
std::string other_kind(std::span<const uint8_t> head) {
  if (std::string problem = wrong_file(head); !problem.empty()) return problem;
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  for (const PackedFormat& packed : kPacked) {
    if (!text.starts_with(packed.magic)) continue;
    return fmt::format(
        "is compressed with {}, but examples are read from the middle of a file: unpack it with "
        "'{}' and give the path of the .tar",
        packed.name, packed.unpack);
  }
  if (text.starts_with("PK\x03\x04")) return "is a zip archive, not a tar file";
  return "";
}

}  // namespace

// A member's metadata from the headers before its own header.
struct TarReader::Extended {
  bool any = false;
  std::optional<std::string> name, target;
  std::optional<uint64_t> size;
};

TarReader::TarReader(const std::string& file, uint64_t offset)
    : name_(file), file_(file), size_(file_.size()), at_(offset) {
  if (offset == 0) check_kind();
}

void TarReader::fail(uint64_t offset, std::string_view why) const {
  throw Error(Exit::usage, fmt::format("{} @ offset {}", name_, offset), why);
}

void TarReader::check_kind() {
  const std::span<const uint8_t> head = peek(0, kTarBlock);
  if (const std::string problem = other_kind(head); !problem.empty())
    throw Error(Exit::usage, name_, problem);
  if (head.size() < kTarBlock) {
    throw Error(Exit::usage, name_,
                fmt::format("is not a tar file: it has only {} bytes", head.size()));
  }
  if (!all_zero(head.first(kTarBlock)) && !has_checksum(head))
    throw Error(Exit::usage, name_, "is not a tar file: it does not begin with a header");
}

std::span<const uint8_t> TarReader::peek(uint64_t offset, uint64_t need) {
  if (offset >= size_) return {};
  need = std::min(need, size_ - offset);
  if (offset < window_at_ || offset + need > window_at_ + window_.size()) {
    window_.resize(std::max(kWindow, need));
    window_.resize(file_.read(window_.data(), window_.size(), offset));
    window_at_ = offset;
    if (window_.size() < need) fail(offset + window_.size(), "the file became shorter");
  }
  return std::span<const uint8_t>(window_).subspan(offset - window_at_);
}

std::string TarReader::content(const TarMember& member) {
  const std::span<const uint8_t> bytes = peek(member.data, member.size);
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(member.size)};
}

// Returns the header at at_; empty at the end of the tar.
std::span<const uint8_t> TarReader::header() {
  const std::span<const uint8_t> block = peek(at_, kTarBlock);
  if (block.size() >= kTarBlock && !all_zero(block.first(kTarBlock))) {
    if (!has_checksum(block))
      fail(at_, "this is not the header of a member: its checksum is wrong; the file is damaged");
    return block.first(kTarBlock);
  }
  if (!all_zero(block.first(std::min<size_t>(block.size(), kTarBlock)))) {
    fail(at_, fmt::format("the file ends within a header, after {} of {} bytes: it is cut off",
                          block.size(), kTarBlock));
  }
  has_end_ = block.size() >= kTarBlock;
  check_tail(at_);
  return {};
}

// Throws if the rest of the file is not zero: its content would be lost silently.
void TarReader::check_tail(uint64_t offset) {
  while (offset < size_) {
    const std::span<const uint8_t> bytes = peek(offset, kWindow);
    const auto other = std::find_if(bytes.begin(), bytes.end(), [](uint8_t b) { return b != 0; });
    if (other != bytes.end()) {
      fail(offset + static_cast<uint64_t>(other - bytes.begin()),
           "there is data after the end of the tar, perhaps a second tar: join tars with 'tar -A', "
           "not with 'cat', or list each tar");
    }
    offset += bytes.size();
  }
}

bool TarReader::next(TarMember& member) {
  Extended extended;
  member = {};
  member.begin = at_;
  for (;;) {
    const std::span<const uint8_t> block = header();
    if (block.empty()) {
      if (extended.any) fail(member.begin, "the member of this extended header is missing");
      return false;
    }
    const std::optional<uint64_t> size = size_of(block);
    if (!size) fail(at_, "the size in this header is not a number");
    const char type = raw(block, kType)[0];
    if (std::string_view("LKxXg").find(type) != std::string_view::npos) {
      read_extended(type, *size, extended);
      continue;
    }
    member.name = name_of(block);
    member.type = type;
    member.target = field_text(block, kLink);
    member.size = *size;
    member.data = at_ + kTarBlock;
    finish_member(member, extended);
    member.type = member_type(block, member.name);
    if (!has_content(member.type)) member.size = 0;
    if (member.size > size_ - member.data) {
      fail(at_, fmt::format("'{}' has {} bytes, but the file ends after {} of them: it is cut off",
                            printable(member.name), member.size, size_ - member.data));
    }
    at_ = std::min(member.data + (member.size + kTarBlock - 1) / kTarBlock * kTarBlock, size_);
    return true;
  }
}

// Applies the extended headers that precede the member, and rejects what cannot be read correctly.
void TarReader::finish_member(TarMember& member, const Extended& extended) {
  if (extended.name) member.name = *extended.name;
  if (extended.target) member.target = *extended.target;
  if (extended.size) {
    if (member.size != 0 && member.size != *extended.size) {
      fail(at_, fmt::format("'{}' has two sizes: {} in its header, {} before it",
                            printable(member.name), member.size, *extended.size));
    }
    member.size = *extended.size;
  }
  if (member.name.size() > limits::kTarNameBytes)
    fail(at_, fmt::format("a name of {} bytes, more than {}", member.name.size(),
                          limits::kTarNameBytes));
  if (member.name.find('\0') != std::string::npos) fail(at_, "a name that contains NUL");
  if (member.type == 'S')
    fail(at_, "a file with holes (GNU sparse format): make the tar without --sparse");
  if (member.type == 'M')
    fail(at_, "a file that begins in another volume: make the tar without --multi-volume");
}

// Reads a header that describes the next member, and moves at_ past it.
void TarReader::read_extended(char type, uint64_t size, Extended& extended) {
  if (size > limits::kTarExtendedBytes)
    fail(at_, fmt::format("an extended header of {} bytes, more than {}", size,
                          limits::kTarExtendedBytes));
  const uint64_t data = at_ + kTarBlock;
  const std::span<const uint8_t> bytes = peek(data, size);
  if (bytes.size() < size) {
    fail(at_, fmt::format("the file ends within an extended header, after {} of {} bytes: it is "
                          "cut off",
                          bytes.size(), size));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), size);
  extended.any |= type != 'g';
  if (type == 'L') {
    extended.name = text.substr(0, text.find('\0'));
  } else if (type == 'K') {
    extended.target = text.substr(0, text.find('\0'));
  } else {
    read_pax(text, type, extended);
  }
  at_ = std::min(data + (size + kTarBlock - 1) / kTarBlock * kTarBlock, size_);
}

// Reads records "<length> <key>=<value>\n".
void TarReader::read_pax(std::string_view records, char type, Extended& extended) {
  const auto bad = [&] { fail(at_, "a damaged pax header"); };
  while (!records.empty()) {
    const size_t blank = records.find(' ');
    const auto length = parse_count<size_t>(records.substr(0, blank));
    if (blank == std::string_view::npos || !length || *length < blank + 3 ||
        *length > records.size() || records[*length - 1] != '\n')
      bad();
    const std::string_view record = records.substr(blank + 1, *length - blank - 2);
    records.remove_prefix(*length);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) bad();
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key.starts_with("GNU.sparse."))
      fail(at_, "a file with holes (GNU sparse format): make the tar without --sparse");
    if (type == 'g' && (key == "path" || key == "size"))
      fail(at_, fmt::format("a pax header that sets '{}' for all members is not supported", key));
    if (key == "path") extended.name = value;
    if (key == "linkpath") extended.target = value;
    if (key == "size") {
      extended.size = parse_count<uint64_t>(value);
      if (!extended.size) bad();
    }
  }
}

bool is_tar_header_of(std::span<const uint8_t> block, uint64_t size) {
  if (block.size() != kTarBlock || !has_checksum(block)) return false;
  const std::optional<uint64_t> stored = size_of(block);
  return stored == size || stored == 0;  // 0 where a pax header has the size
}

}  // namespace bv
