// Tar files for tests.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace bv::test {

// Sets the checksum of a header to the sum of its bytes.
inline std::string with_checksum(std::string header) {
  header.replace(148, 8, 8, ' ');
  uint32_t sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  header.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

enum class TarFormat { v7, ustar, gnu };

// Returns a header of 512 bytes. `name` has at most 100 bytes.
inline std::string tar_header(const std::string& name, uint64_t size, char type = '0',
                              TarFormat format = TarFormat::ustar, const std::string& link = "") {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  header.replace(124, 11, fmt::format("{:011o}", size));
  header[156] = format == TarFormat::v7 && type == '0' ? '\0' : type;
  header.replace(157, link.size(), link);
  if (format == TarFormat::ustar)
    header.replace(257, 8,
                   std::string("ustar\0"
                               "00",
                               8));
  if (format == TarFormat::gnu) header.replace(257, 8, std::string("ustar  \0", 8));
  return with_checksum(header);
}

// Returns `content` with zeros up to the next multiple of 512 bytes.
inline std::string tar_padded(const std::string& content) {
  return content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_member(const std::string& name, const std::string& content,
                              TarFormat format = TarFormat::ustar) {
  return tar_header(name, content.size(), '0', format) + tar_padded(content);
}

// Returns a record of a pax header: "<length> <key>=<value>\n".
inline std::string pax_record(const std::string& key, const std::string& value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (fmt::format("{}", length).size() + rest != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}
// Returns a pax header for the next member (x) or for all (g).
inline std::string pax_header(const std::string& records, char type = 'x') {
  return tar_header("PaxHeaders/x", records.size(), type) + tar_padded(records);
}

// Returns the member with a name of any length, as GNU tar writes it.
inline std::string gnu_long_member(const std::string& name, const std::string& content) {
  const std::string text = name + std::string(1, '\0');
  return tar_header("././@LongLink", text.size(), 'L', TarFormat::gnu) + tar_padded(text) +
         tar_member(name.substr(0, 100), content, TarFormat::gnu);
}

// Returns the size field of a header in base 256.
inline std::string with_base256_size(std::string header, uint64_t size) {
  std::string field(12, '\0');
  field[0] = '\x80';
  for (int i = 0; i < 8; ++i) field[11 - i] = static_cast<char>(size >> (8 * i));
  return with_checksum(header.replace(124, 12, field));
}

inline const std::string kTarEnd(1024, '\0');

}  // namespace bv::test
