// The file is JSON whose last member, "self", is the XXH3 of all bytes before it. It is checked
// before the JSON is parsed, so a flipped byte anywhere is detected as a wrong checksum and never
// read as a wrong value.
#include "lib/ckpt/manifest.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "lib/ckpt/checkpoint_meta.h"
#include "lib/ckpt/chunk_reader.h"
#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/pieces.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/json_text.h"
#include "lib/util/limits.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {

namespace {

using nlohmann::json;

constexpr int kFormat = 1, kPiecedFormat = 2;
constexpr size_t kHexDigits = 16;
// The end of the file: the checksum of everything before it is between these two.
constexpr std::string_view kSelfBegin = ",\n \"self\": \"", kSelfEnd = "\"\n}\n";

Error broken(std::string_view file, std::string_view what) {
  return Error::bare(Exit::usage, fmt::format("{}: {}", file, what));
}

std::string hex(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

uint64_t from_hex(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != kHexDigits || error != std::errc() || end != text.data() + text.size()) {
    throw broken(kManifestName, "a checksum is not 16 hexadecimal digits");
  }
  return value;
}

void check_self(std::string_view text, std::string_view name) {
  const size_t tail = kSelfBegin.size() + kHexDigits + kSelfEnd.size();
  if (text.size() < tail) throw broken(name, "is cut off");
  const std::string_view body = text.substr(0, text.size() - tail);
  if (text.substr(body.size()) != fmt::format("{}{}{}", kSelfBegin, hex(hash64(body)), kSelfEnd)) {
    throw broken(name, "its own checksum differs");
  }
}

// Throws if a manifest of `bytes` bytes could not be read back.
void check_length(size_t bytes, const json& meta) {
  if (bytes <= limits::kCheckpointManifestBytes) return;
  const json none = json::array();
  size_t names = 0;
  for (const json& name : meta.contains("class_names") ? meta["class_names"] : none)
    names += name.is_string() ? name.get_ref<const std::string&>().size() : 0;
  throw broken(kManifestName,
               fmt::format("would take {}, and at most {} can be read back; the class names take "
                           "{}",
                           human_bytes(static_cast<double>(bytes)),
                           human_bytes(static_cast<double>(limits::kCheckpointManifestBytes)),
                           human_bytes(static_cast<double>(names))));
}

// Returns the member `key` of an object of the manifest, which must be of that kind.
const json& member(const json& object, const char* key, JsonKind kind) {
  if (!object.is_object() || !object.contains(key))
    throw broken(kManifestName, fmt::format("'{}' is missing", key));
  const json& value = object.at(key);
  if (const std::string fault = json_fault(value, kind); !fault.empty())
    throw broken(kManifestName, fmt::format("'{}' {}", key, fault));
  return value;
}

Manifest::File parse_file(const json& entry) {
  Manifest::File file;
  file.name = member(entry, "name", JsonKind::text).get<std::string>();
  if (file.name.empty() || file.name.find('/') != std::string::npos || file.name == "..") {
    throw broken(kManifestName, fmt::format("invalid file name '{}'", file.name));
  }
  file.bytes = member(entry, "bytes", JsonKind::count).get<uint64_t>();
  if (member(entry, "chunk_bytes", JsonKind::count).get<uint64_t>() != FileWriter::kChunkBytes) {
    throw broken(kManifestName, fmt::format("chunk_bytes is not {}", FileWriter::kChunkBytes));
  }
  for (const json& checksum : member(entry, "xxh3_64", JsonKind::texts)) {
    file.checksums.push_back(from_hex(checksum.get<std::string>()));
  }
  const uint64_t full = file.bytes / FileWriter::kChunkBytes;
  if (file.checksums.size() != full + (file.bytes % FileWriter::kChunkBytes == 0 ? 0 : 1)) {
    throw broken(kManifestName, fmt::format("'{}' has {} checksums for {} bytes", file.name,
                                            file.checksums.size(), file.bytes));
  }
  return file;
}

// Returns the list "[4, 1]" as numbers; nullopt if it is not a list of integers.
std::optional<std::vector<int64_t>> whole_numbers(const json& list) {
  if (!list.is_array()) return std::nullopt;
  for (const json& each : list) {
    if (!json_fault(each, JsonKind::count).empty()) return std::nullopt;
  }
  return list.get<std::vector<int64_t>>();
}

std::map<std::string, Manifest::Layout> parse_layouts(const json& all) {
  std::map<std::string, Manifest::Layout> layouts;
  for (auto entry = all.begin(); entry != all.end(); ++entry) {
    const json& pair = entry.value();
    const bool two = pair.is_array() && pair.size() == 2;
    const auto shape = two ? whole_numbers(pair[0]) : std::nullopt;
    const auto strides = two ? whole_numbers(pair[1]) : std::nullopt;
    if (!shape || !strides || !dense_strides(*shape, *strides)) {
      throw broken(kManifestName,
                   fmt::format("'{}' has strides that do not fit its shape", entry.key()));
    }
    layouts.emplace(entry.key(), Manifest::Layout{*shape, *strides});
  }
  return layouts;
}

Manifest parse_manifest(const json& root) {
  const auto format = member(root, "format", JsonKind::count).get<int64_t>();
  if (format != kFormat && format != kPiecedFormat) {
    throw broken(kManifestName, fmt::format("format {} is unknown to this version", format));
  }
  Manifest manifest;
  manifest.step = member(root, "step", JsonKind::count).get<int64_t>();
  if (manifest.step > limits::kStreamCount)
    throw broken(kManifestName, fmt::format("'step' is {}, at most {} is possible", manifest.step,
                                            limits::kStreamCount));
  manifest.keep = member(root, "keep", JsonKind::flag).get<bool>();
  manifest.meta = root.value("meta", json());
  if (manifest.meta.is_null()) manifest.meta = json::object();
  check_meta(manifest.meta);
  manifest.ranks = static_cast<int>(std::min<int64_t>(
      member(root, "world_size", JsonKind::count).get<int64_t>(), std::numeric_limits<int>::max()));
  for (const json& entry : member(root, "files", JsonKind::list))
    manifest.files.push_back(parse_file(entry));
  if (format == kPiecedFormat)
    manifest.pieced = parse_layouts(member(root, "pieced", JsonKind::object));
  return manifest;
}

}  // namespace

std::string Manifest::text() const {
  json entries = json::array();
  for (const File& file : files) {
    json checksums = json::array();
    for (const uint64_t checksum : file.checksums) checksums.push_back(hex(checksum));
    entries.push_back({{"name", file.name},
                       {"bytes", file.bytes},
                       {"chunk_bytes", FileWriter::kChunkBytes},
                       {"xxh3_64", std::move(checksums)}});
  }
  json layouts = json::object();
  for (const auto& [name, layout] : pieced) layouts[name] = {layout.shape, layout.strides};
  json root = {{"format", pieced.empty() ? kFormat : kPiecedFormat},
               {"step", step},
               {"world_size", ranks},
               {"keep", keep},
               {"files", std::move(entries)},
               {"meta", meta}};
  if (!pieced.empty()) root["pieced"] = std::move(layouts);
  std::string text = json_text(root, 1);  // even if a class name is not UTF-8
  text.resize(text.size() - 2);           // the final "\n}", which follows the checksum
  check_length(text.size() + kSelfBegin.size() + kHexDigits + kSelfEnd.size(), meta);
  return text + std::string(kSelfBegin) + hex(hash64(text)) + std::string(kSelfEnd);
}

Manifest read_manifest(const std::string& folder, const std::string& name) {
  std::string text;
  const std::string path = folder + "/" + name;
  if (!file_exists(path) && errno == ENOENT) throw broken(name, "is missing");
  try {
    text = read_file(path, limits::kCheckpointManifestBytes);
  } catch (const Error& error) {
    if (error.code() == Exit::storage)
      throw Error::bare(Exit::storage, fmt::format("{}: {}", name, error.message()));
    throw broken(name, error.message());
  }
  check_self(text, name);
  // The checksum proves that nothing has changed, but not who wrote the file.
  if (json_nesting(text) > limits::kJsonNesting)
    throw broken(name, fmt::format("is nested more than {} deep", limits::kJsonNesting));
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) throw broken(name, "is not JSON");
  return parse_manifest(root);
}

void with_file(const std::string& folder, const Manifest::File& file, const UseFile& use) {
  const std::string path = folder + "/" + file.name;
  if (!file_exists(path) && errno == ENOENT) throw broken(file.name, "is missing");
  try {
    const ChunkReader reader(path, file.checksums);
    if (reader.bytes() != file.bytes) {
      throw broken(file.name,
                   fmt::format("has {} bytes, the manifest says {}", reader.bytes(), file.bytes));
    }
    use(reader, path);
  } catch (const Error& error) {
    if (error.where() != path) throw Error::bare(error.code(), error.what());
    throw Error::bare(error.code(), fmt::format("{}: {}", file.name, error.message()));
  }
}

void verify_file(const std::string& folder, const Manifest::File& file) {
  with_file(folder, file, [](const ChunkReader& reader, const std::string&) {
    reader.read({}, ChunkReader::Chunks::all);
  });
}

}  // namespace bv
