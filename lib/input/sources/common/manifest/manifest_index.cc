#include "lib/input/sources/common/manifest/manifest_index.h"

#include <algorithm>
#include <cstring>

namespace bv {

void PackedText::number(uint64_t value) {
  text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PackedText::text(std::string_view value) {
  number(value.size());
  text_.append(value);
}

void PackedText::texts(const std::vector<std::string>& values) {
  number(values.size());
  for (const std::string& value : values) text(value);
}

void UnpackedText::copy(std::string_view from, void* to, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from.data(), bytes);
}

uint64_t UnpackedText::number() {
  uint64_t value = 0;
  if (rest_.size() < sizeof(value)) {
    failed_ = true;
    return 0;
  }
  copy(rest_, &value, sizeof(value));
  rest_.remove_prefix(sizeof(value));
  return value;
}

std::string_view UnpackedText::text() {
  const uint64_t size = number();
  if (failed_ || size > rest_.size()) {
    failed_ = true;
    return {};
  }
  const std::string_view value = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return value;
}

std::vector<std::string> UnpackedText::texts() {
  std::vector<std::string> values;
  for (uint64_t count = number(); count > 0 && !failed_; --count) values.emplace_back(text());
  return values;
}

std::string ManifestIndex::pack() const {
  PackedText packed;
  packed.numbers(offsets);
  packed.numbers(lengths);
  packed.numbers(lines);
  packed.numbers(splits);
  packed.texts(split_names);
  packed.numbers(labels);
  packed.texts(class_names);
  packed.texts(remarks);
  packed.text(layout);
  return packed.take();
}

std::optional<ManifestIndex> ManifestIndex::unpack(std::string_view text) {
  UnpackedText packed(text);
  ManifestIndex index;
  index.offsets = packed.numbers<uint64_t>();
  index.lengths = packed.numbers<uint32_t>();
  index.lines = packed.numbers<uint32_t>();
  index.splits = packed.numbers<uint32_t>();
  index.split_names = packed.texts();
  index.labels = packed.numbers<int64_t>();
  index.class_names = packed.texts();
  index.remarks = packed.texts();
  index.layout = packed.text();
  const size_t rows = index.rows();
  const auto fits = [&](const auto& values) { return values.empty() || values.size() == rows; };
  const bool sound = packed.whole() && rows > 0 && index.lengths.size() == rows &&
                     index.lines.size() == rows && fits(index.splits) && fits(index.labels) &&
                     std::all_of(index.splits.begin(), index.splits.end(),
                                 [&](uint32_t split) { return split < index.split_names.size(); });
  if (!sound) return std::nullopt;
  return index;
}

}  // namespace bv
