#include "lib/input/sources/common/manifest/manifest_index.h"

#include <algorithm>

#include "lib/input/sources/common/manifest/row_text.h"
#include "lib/input/sources/common/packed_text.h"

namespace bv {

void RowProblems::add(const Error& problem) {
  if (shown.size() < kShownRows)
    shown.push_back(problem);
  else
    ++left_out;
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
  packed.text(unused_split);
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
  index.unused_split = packed.text();
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
