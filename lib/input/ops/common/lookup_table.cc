#include "lib/input/ops/common/lookup_table.h"

#include <charconv>
#include <cstring>
#include <vector>

#include "lib/ckpt/formats/npy.h"
#include "lib/ckpt/formats/zip.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/limits.h"
#include "lib/util/mapped_file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Adds one entry. where: "mapping.txt:3" or "mapping.npz", for messages.
void add(LookupTable& table, const std::string& text, int64_t number, const std::string& where) {
  const auto [entry, added] = table.emplace(text, number);
  if (added || entry->second == number) return;
  throw Error(Exit::usage, where,
              fmt::format("'{}' has two numbers, {} and {}", text, entry->second, number));
}

LookupTable read_lines(const std::string& file, const std::optional<std::string>& separator) {
  const std::string content = without_bom(read_file(file, limits::kLookupTableBytes));
  LookupTable table;
  int64_t line_number = 0;
  for (size_t begin = 0; begin < content.size(); ++line_number) {
    const size_t end = std::min(content.find_first_of("\r\n", begin), content.size());
    std::string line = content.substr(begin, end - begin);
    begin = end + (content.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    const std::string where = fmt::format("{}:{}", file, line_number + 1);
    if (!valid_utf8(line)) throw Error(Exit::usage, where, "is not UTF-8 text");
    if (!separator) {
      add(table, line, line_number, where);
      continue;
    }
    const size_t at = line.find(*separator);
    const std::string number =
        at == std::string::npos ? "" : trim(line.substr(at + separator->size()));
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || stop != number.data() + number.size() || number.empty()) {
      throw Error(Exit::usage, where,
                  fmt::format("expected a string, '{}' and an integer", *separator));
    }
    add(table, line.substr(0, at), value, where);
  }
  return table;
}

// Returns one element of numpy's types S (bytes) and U (4 bytes per character), without zeros at
// its end.
std::string npy_element_text(const uint8_t* bytes, const NpyHeader& header) {
  std::string text(reinterpret_cast<const char*>(bytes), header.type == "S" ? header.width : 0);
  for (uint64_t i = 0; header.type == "U" && i + 4 <= header.width; i += 4) {
    uint32_t code = 0;
    std::memcpy(&code, bytes + i, 4);
    if (header.big_endian) code = __builtin_bswap32(code);
    if (code > 0x10FFFF) return "\xFF";  // not text: valid_utf8() rejects it
    append_utf8(text, code);
  }
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

LookupTable read_array(const std::string& file, const std::string& npzkey) {
  const MappedFile mapping(file);
  std::vector<std::string> names;
  for (const ZipEntry& entry : read_zip_directory(mapping.bytes(), file)) {
    names.push_back(entry.name);
    if (entry.name != npzkey + ".npy") continue;
    const std::string where = fmt::format("{} @ offset {}", file, entry.data);
    const ErrorAt error_at = [&](size_t position, const std::string& message) {
      return Error(Exit::usage, where, fmt::format("'{}', byte {}: {}", npzkey, position, message));
    };
    if (entry.bytes > limits::kLookupTableBytes) {
      throw Error(Exit::usage, where, fmt::format("'{}' is larger than 1 GiB", npzkey));
    }
    std::vector<uint8_t> npy(entry.bytes);
    unpack(mapping.bytes(), entry, file, npy);
    const NpyHeader header = parse_npy_header(npy, error_at);
    if (!header.is_text() || header.shape.size() != 1) {
      throw Error(Exit::usage, where,
                  fmt::format("'{}' must be a one-dimensional array of strings", npzkey));
    }
    LookupTable table;
    for (int64_t i = 0; i < header.shape[0]; ++i) {
      const uint64_t offset = header.data + static_cast<uint64_t>(i) * header.width;
      const std::string text = npy_element_text(npy.data() + offset, header);
      if (!valid_utf8(text)) throw error_at(offset, "this string is not valid Unicode");
      add(table, text, i, file);
    }
    return table;
  }
  throw Error(Exit::usage, file,
              fmt::format("no array '{}'; there are: {}", npzkey, join(names, ", ")));
}

}  // namespace

LookupTable read_lookup_table(const std::string& file, const std::string& npzkey,
                              const std::optional<std::string>& separator) {
  return file.ends_with(".npz") ? read_array(file, npzkey) : read_lines(file, separator);
}

}  // namespace bv
