// A parser for this JSON only, because errors must give the offset and duplicate names must be
// detected.
#include "lib/ckpt/formats/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "lib/ckpt/formats/cursor.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"

namespace bv {

namespace {

static_assert(std::endian::native == std::endian::little,
              "the data of safetensors is little-endian");

constexpr uint64_t kSafetensorsAlignment = 64;
constexpr const char* kMetadata = "__metadata__";

class HeaderParser {
 public:
  explicit HeaderParser(Cursor cursor) : cursor_(std::move(cursor)) {}

  // Parses the whole header except for `data`.
  SafetensorsHeader parse() {
    cursor_.expect('{');
    members([&](const std::string& name, uint64_t position) {
      if (!names_.insert(name).second) {
        cursor_.fail_at(position, fmt::format("'{}' appears twice", name));
      }
      if (name == kMetadata) {
        metadata();
      } else {
        header_.entries.push_back(tensor(name, position));
      }
    });
    cursor_.expect_end();
    return std::move(header_);
  }

 private:
  // Parses the members of an object after its '{', up to and including its '}'.
  template <class Member>
  void members(const Member& member) {
    if (cursor_.take('}')) return;
    do {
      cursor_.skip_blanks();
      const uint64_t position = cursor_.position();
      const std::string name = string();
      cursor_.expect(':');
      member(name, position);
    } while (cursor_.take(','));
    cursor_.expect('}');
  }

  std::string string() {
    cursor_.skip_blanks();
    const size_t begin = cursor_.position();
    const std::string_view quoted = cursor_.quoted('"');
    const bool plain = std::all_of(quoted.begin(), quoted.end(),
                                   [](char c) { return c >= 0x20 && c < 0x7f && c != '\\'; });
    if (plain) return std::string(quoted.substr(1, quoted.size() - 2));
    // Escapes, control characters and UTF-8 are left to the JSON library.
    const auto value = nlohmann::json::parse(quoted, nullptr, false);
    if (!value.is_string()) cursor_.fail_at(begin, "not a valid JSON string");
    return value.get<std::string>();
  }

  std::vector<int64_t> integers() {
    std::vector<int64_t> values;
    cursor_.expect('[');
    if (cursor_.take(']')) return values;
    do {
      values.push_back(cursor_.integer());
    } while (cursor_.take(','));
    cursor_.expect(']');
    return values;
  }

  void metadata() {
    cursor_.expect('{');
    members([&](const std::string& key, uint64_t position) {
      if (header_.metadata.contains(key)) {
        cursor_.fail_at(position, fmt::format("metadata '{}' appears twice", key));
      }
      header_.metadata[key] = string();
    });
  }

  SafetensorsEntry tensor(const std::string& name, uint64_t position) {
    SafetensorsEntry entry;
    entry.name = name;
    entry.position = position;
    std::set<std::string> fields;
    cursor_.expect('{');
    members([&](const std::string& field, uint64_t at) {
      if (!fields.insert(field).second) {
        cursor_.fail_at(at, fmt::format("tensor '{}': '{}' appears twice", name, field));
      }
      cursor_.skip_blanks();
      const size_t value_at = cursor_.position();
      if (field == "dtype") {
        entry.dtype = string();
      } else if (field == "shape") {
        entry.shape = integers();
      } else if (field == "data_offsets") {
        const std::vector<int64_t> offsets = integers();
        if (offsets.size() != 2 || offsets[0] > offsets[1]) {
          cursor_.fail_at(value_at, fmt::format("tensor '{}': data_offsets must be [begin, end] "
                                                "with begin <= end",
                                                name));
        }
        entry.begin = static_cast<uint64_t>(offsets[0]);
        entry.end = static_cast<uint64_t>(offsets[1]);
      } else {
        cursor_.fail_at(at, fmt::format("tensor '{}': unknown field '{}'; known: dtype, shape, "
                                        "data_offsets",
                                        name, field));
      }
    });
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (fields.count(field) == 0) {
        cursor_.fail_at(position, fmt::format("tensor '{}' has no {}", name, field));
      }
    }
    check_size(entry);
    return entry;
  }

  void check_size(const SafetensorsEntry& entry) const {
    const uint64_t element_bytes = safetensors_element_bytes(entry.dtype);
    if (element_bytes == 0) {
      cursor_.fail_at(entry.position,
                      fmt::format("tensor '{}': unknown dtype '{}'; known: F64, F32, F16, BF16, "
                                  "I64, I32, I16, I8, U8, BOOL",
                                  entry.name, entry.dtype));
    }
    const auto bytes = array_bytes(entry.shape, element_bytes);
    if (!bytes) {
      cursor_.fail_at(entry.position,
                      fmt::format("tensor '{}': its shape is too large", entry.name));
    }
    if (*bytes != entry.end - entry.begin) {
      cursor_.fail_at(entry.position,
                      fmt::format("tensor '{}': shape and dtype take {} bytes, data_offsets {}",
                                  entry.name, *bytes, entry.end - entry.begin));
    }
  }

  Cursor cursor_;
  std::set<std::string> names_;
  SafetensorsHeader header_;
};

}  // namespace

uint64_t safetensors_element_bytes(const std::string& dtype) {
  static const std::map<std::string, uint64_t> bytes = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
      {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};
  const auto found = bytes.find(dtype);
  return found == bytes.end() ? 0 : found->second;
}

uint64_t safetensors_header_bytes(std::span<const uint8_t> start, uint64_t bytes) {
  uint64_t length = 0;
  if (start.size() < kSafetensorsLengthBytes) return bytes;
  std::memcpy(&length, start.data(), kSafetensorsLengthBytes);
  return std::min(bytes,
                  kSafetensorsLengthBytes + std::min(length, limits::kSafetensorsHeaderBytes));
}

SafetensorsHeader parse_safetensors_header(std::span<const uint8_t> start, uint64_t bytes,
                                           const std::string& file) {
  const auto error_at = [&](uint64_t offset, const std::string& message) {
    return Error(Exit::usage, fmt::format("{} @ offset {}", file, offset), message);
  };
  if (bytes < kSafetensorsLengthBytes) {
    throw error_at(0, fmt::format("a safetensors file begins with 8 bytes of length, this one has "
                                  "{} in all",
                                  bytes));
  }
  uint64_t length = 0;
  std::memcpy(&length, start.data(), kSafetensorsLengthBytes);
  if (length > limits::kSafetensorsHeaderBytes) {
    throw error_at(0, fmt::format("header length {} is above the limit of {} bytes (is this a "
                                  "safetensors file?)",
                                  length, limits::kSafetensorsHeaderBytes));
  }
  if (length > bytes - kSafetensorsLengthBytes) {
    throw error_at(
        0, fmt::format("header length {} does not fit in a file of {} bytes", length, bytes));
  }

  const std::string_view json(reinterpret_cast<const char*>(start.data()) + kSafetensorsLengthBytes,
                              length);
  const Cursor cursor(json, [&](size_t position, const std::string& message) {
    return error_at(kSafetensorsLengthBytes + position, message);
  });
  SafetensorsHeader header = HeaderParser(cursor).parse();
  header.data = kSafetensorsLengthBytes + length;
  for (SafetensorsEntry& entry : header.entries) entry.position += kSafetensorsLengthBytes;

  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  const uint64_t available = bytes - header.data;
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.end > available) {
      throw error_at(entry.position, fmt::format("tensor '{}' ends at byte {} of the data, which "
                                                 "has {}",
                                                 entry.name, entry.end, available));
    }
    if (entry.begin != end) {
      throw error_at(entry.position,
                     fmt::format("tensor '{}' begins at byte {} of the data, {} at byte {}",
                                 entry.name, entry.begin,
                                 entry.begin < end ? "before the end of the one before it"
                                                   : "but the one before it ends",
                                 end));
    }
    end = entry.end;
  }
  if (end != available) {
    throw error_at(header.data + end, fmt::format("{} bytes belong to no tensor", available - end));
  }
  return header;
}

std::string safetensors_header(const std::vector<SafetensorsEntry>& entries,
                               const std::map<std::string, std::string>& metadata,
                               const std::string& file) {
  const auto quote = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string json = "{";
  if (!metadata.empty()) {
    json += quote(kMetadata) + ":" + nlohmann::json(metadata).dump();
  }
  for (const SafetensorsEntry& entry : entries) {
    if (json.size() > 1) json += ",";
    json +=
        fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", quote(entry.name),
                    entry.dtype, fmt::join(entry.shape, ","), entry.begin, entry.end);
  }
  json += "}";
  json.resize((kSafetensorsLengthBytes + json.size() + kSafetensorsAlignment - 1) /
                      kSafetensorsAlignment * kSafetensorsAlignment -
                  kSafetensorsLengthBytes,
              ' ');
  const uint64_t length = json.size();
  if (length > limits::kSafetensorsHeaderBytes) {
    throw Error(Exit::storage, file,
                fmt::format("{} tensors need a header of {} bytes, which is above the limit of {}",
                            entries.size(), length, limits::kSafetensorsHeaderBytes));
  }
  return std::string(reinterpret_cast<const char*>(&length), kSafetensorsLengthBytes) + json;
}

}  // namespace bv
