#include "lib/input/data_notes.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <span>

#include "lib/input/image/orientation.h"
#include "lib/input/image/png.h"
#include "lib/input/shuffle.h"
#include "lib/util/text.h"

namespace bv {
namespace {

std::string was(int64_t count) { return count == 1 ? "was" : "were"; }

// Returns "3 files of other types were ignored (2 .txt, 1 .csv)": the most frequent types first.
std::string other_types_text(const std::map<std::string, int64_t>& types) {
  constexpr size_t kShown = 6;
  std::vector<std::pair<std::string, int64_t>> sorted(types.begin(), types.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  int64_t files = 0, rest = 0;
  std::vector<std::string> shown;
  for (const auto& [suffix, count] : sorted) {
    files += count;
    if (shown.size() == kShown)
      rest += count;
    else
      shown.push_back(
          fmt::format("{} {}", count, suffix.empty() ? "without a usual suffix" : suffix));
  }
  if (rest > 0) shown.push_back(fmt::format("{} others", rest));
  return fmt::format("{} of other types {} ignored ({})", counted(files, "file"), was(files),
                     join(shown, ", "));
}

// Changes only ASCII letters.
std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string orientation_note(int64_t turned, const std::string& images, const std::string& op) {
  return fmt::format(
      "the EXIF orientation of {} of {} is ignored; {}(exif=True) turns them upright", turned,
      images, op);
}

struct SampledFiles {
  int64_t images = 0;
  int64_t turned = 0;  // as in FileNotes
  int64_t deep = 0;    // PNG files of 16 bits per channel
};

// Looks at the image files in the feature `key` of a few examples, always the same ones.
SampledFiles sample_files(const Dataset& data, const std::string& key) {
  constexpr int64_t kMost = 16;
  constexpr uint64_t kSeed = 0xE71F;
  SampledFiles seen;
  for (int64_t k = 0; k < std::min(kMost, data.size()); ++k) {
    try {
      const Example example = data.read(shuffle(kSeed, 0, k, data.size()));
      const auto image = example.find(key);
      if (image == example.end() || image->second.dim() != 1 ||
          image->second.scalar_type() != at::kByte)
        break;  // pp reports that this is no image file
      const at::Tensor file = image->second.contiguous();
      const std::span<const uint8_t> bytes{file.const_data_ptr<uint8_t>(),
                                           static_cast<size_t>(file.numel())};
      ++seen.images;
      seen.turned += exif_orientation(bytes) != 1;
      seen.deep += is_png_of_16_bits(bytes);
    } catch (const Error&) {
      // The loader reports examples that cannot be read.
    }
  }
  return seen;
}

}  // namespace

std::vector<std::string> split_notes(const std::string& split, const FileNotes& notes,
                                     const Pipeline& pp) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& text) { lines.push_back(split + ": " + text); };
  if (const std::string op = pp.ignores_orientation(); notes.turned > 0 && !op.empty()) {
    add(orientation_note(notes.turned, counted(notes.images, "image"), op));
  }
  if (!notes.other_types.empty()) add(other_types_text(notes.other_types));
  if (notes.inner_folders > 0) {
    add(fmt::format("{} inside class folders {} ignored", counted(notes.inner_folders, "folder"),
                    was(notes.inner_folders)));
  }
  if (notes.loose_images > 0) {
    add(fmt::format("{} next to the class folders {} ignored", counted(notes.loose_images, "image"),
                    was(notes.loose_images)));
  }
  if (!notes.unused_folders.empty()) {
    add(
        fmt::format("the images in {} were ignored, because {} a folder of a split with class "
                    "folders in it",
                    join(notes.unused_folders, ", "),
                    notes.unused_folders.size() == 1 ? "it is not" : "they are not"));
  }
  for (const std::string& remark : notes.remarks) add(remark);
  return lines;
}

std::vector<std::string> data_notes(const Dataset& data, const Pipeline& pp) {
  std::vector<std::string> lines;
  for (const auto& [split, notes] : data.file_notes()) {
    for (std::string& line : split_notes(split, notes, pp)) lines.push_back(std::move(line));
  }
  return lines;
}

std::string untrained_classes(const Dataset& data, const std::set<int64_t>& trained) {
  const std::vector<std::string>& names = data.class_names();
  if (trained.empty()) return "";
  const auto name_of = [&](int64_t label) {
    const bool named = label >= 0 && label < std::ssize(names);
    return named ? names[label] : fmt::format("{}", label);
  };
  std::map<std::string, int64_t> folded;  // the trained classes by their names in lower case
  for (const int64_t label : trained) folded.emplace(lower_case(name_of(label)), label);
  int64_t examples = 0;
  std::vector<std::string> untrained;
  for (const auto& [label, count] : data.label_counts()) {
    if (label < 0 || trained.contains(label)) continue;  // below 0: without a class
    examples += count;
    std::string name = name_of(label);
    const auto twin = folded.find(lower_case(name));
    if (twin != folded.end() && name_of(twin->second) != name)
      name += fmt::format(" (training has '{}')", name_of(twin->second));
    untrained.push_back(std::move(name));
  }
  if (untrained.empty()) return "";
  return fmt::format(
      "{} of {} examples belong to classes that have no training example, so the model cannot "
      "learn them: {}; add training examples, or correct the {}",
      examples, data.size(), short_list(untrained),
      names.empty() ? "labels (do both data sets count classes from the same number?)" : "names");
}

std::vector<std::string> sampled_notes(const Dataset& data, const Pipeline& pp) {
  const std::optional<Decoding> how = pp.decodes();
  if (!how) return {};
  const SampledFiles seen = sample_files(data, how->key);
  std::vector<std::string> lines;
  if (const std::string op = pp.ignores_orientation(); seen.turned > 0 && !op.empty()) {
    const auto notes = data.file_notes();
    const bool counted_already = std::any_of(
        notes.begin(), notes.end(), [](const auto& each) { return each.second.images > 0; });
    if (!counted_already)
      lines.push_back(
          orientation_note(seen.turned, counted(seen.images, "image") + " in the sample", op));
  }
  if (seen.deep > 0) lines.push_back(deep_png_note(seen.deep, seen.images));
  return lines;
}

std::string deep_png_note(int64_t deep, int64_t images) {
  return fmt::format(
      "{} of {} in the sample {} with 16 bits per channel; decoding keeps only the upper 8 (value "
      "/ 256). If that is too coarse, store the images as arrays (npz)",
      deep, counted(images, "image"), deep == 1 ? "is a PNG file" : "are PNG files");
}

}  // namespace bv
