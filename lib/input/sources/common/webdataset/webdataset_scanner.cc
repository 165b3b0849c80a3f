#include "lib/input/sources/common/webdataset/webdataset_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "lib/input/image/decode.h"
#include "lib/input/image/image_suffix.h"
#include "lib/input/image/orientation.h"
#include "lib/input/sources/common/webdataset/webdataset_values.h"
#include "lib/util/limits.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

[[noreturn]] void refuse(std::string_view why) { throw Error::bare(Exit::data, why); }

}  // namespace

void add_types(const std::map<std::string, int64_t>& from, std::map<std::string, int64_t>& to) {
  for (const auto& [suffix, count] : from)
    to[to.size() < limits::kMemberTypes || to.contains(suffix) ? suffix : ""] += count;
}

std::string ScannedSample::where(const std::string& file) const {
  return fmt::format("{} @ offset {} (key {})", file, begin, key);
}

SampleScanner::SampleScanner(const std::string& file, const SamplePlan& plan,
                             const ClassNumbers& classes, uint64_t offset)
    : plan_(plan), classes_(classes), reader_(file, offset), fractional_(plan.features.size()) {
  if (reader_.size() > limits::kTarFileBytes)
    throw Error(Exit::usage, file, "is larger than 2 TiB, the limit of a tar file");
  more_ = advance();
}

// Advances to the next member that belongs to a sample.
bool SampleScanner::advance() {
  while (reader_.next(member_)) {
    if (member_.type == '5') continue;
    const std::optional<SampleName> name = sample_name(member_.name);
    if (name && member_.is_link() && member_kind(name->extension) != MemberKind::other) {
      throw Error(Exit::usage, fmt::format("{} @ offset {}", reader_.name(), member_.begin),
                  fmt::format("'{}' is only a link to '{}': make the tar with --dereference "
                              "--hard-dereference",
                              printable(member_.name), printable(member_.target)));
    }
    if (name && member_.is_file()) {
      key_ = name->key;
      extension_ = name->extension;
      return true;
    }
    const size_t base = member_.name.rfind('/') + 1;
    const bool hidden = member_.name.substr(base).starts_with('.');
    const bool meta = member_.name.starts_with("__");
    if (!hidden && !meta) count_unused(member_.name);
  }
  return false;
}

void SampleScanner::count_unused(const std::string& name) {
  add_types({{suffix_of(name), 1}}, notes_.other_types);
}

bool SampleScanner::next(ScannedSample& sample) {
  do {
    if (!more_) return false;
    read_sample(sample);
  } while (!is_sample(sample.extensions));
  check_complete(sample);
  if (!sample.problem.empty()) ++broken_;
  return true;
}

// Reads the members that share the key of member_.
void SampleScanner::read_sample(ScannedSample& sample) {
  sample = {};
  sample.begin = member_.begin;
  sample.key = key_;
  sample.places.resize(plan_.members.size());
  sample.present.resize(plan_.members.size());
  do {
    if (sample.extensions.size() == limits::kSampleMembers) {
      throw Error(Exit::usage, sample.where(reader_.name()),
                  fmt::format("this sample has more than {} members: the key of a sample ends at "
                              "the first dot of the file's name",
                              limits::kSampleMembers));
    }
    add(sample);
    more_ = advance();
  } while (more_ && key_ == sample.key);
}

// Adds member_ to its sample. The first problem counts.
void SampleScanner::add(ScannedSample& sample) {
  const auto problem = [&](std::string text) {
    if (sample.problem.empty()) sample.problem = std::move(text);
  };
  const auto& others = sample.extensions;
  if (std::find(others.begin(), others.end(), extension_) != others.end())
    problem(fmt::format("has '{}' twice, again @ offset {}", printable(extension_), member_.begin));
  sample.extensions.push_back(extension_);
  const std::optional<size_t> planned = plan_.find(extension_);
  if (!planned) {
    count_unused(member_.name);
    return;
  }
  if (sample.present[*planned] != 0) {
    problem("has several images: choose one, as in `features: {image: jpg, label: cls}`");
    return;
  }
  sample.present[*planned] = 1;
  sample.places[*planned] = {static_cast<uint32_t>(member_.data / kTarBlock),
                             static_cast<uint32_t>(std::min(member_.size, limits::kRecordBytes))};
  try {
    if (member_.size > limits::kRecordBytes)
      refuse(
          fmt::format("'{}' has {} bytes, more than the limit of 1 GiB", extension_, member_.size));
    look_inside(*planned, sample);
  } catch (const Error& error) {
    if (error.code() != Exit::data) throw;
    problem(error.message());
  }
}

// Reads the parts of member_'s content that the index needs. Throws Error(Exit::data).
void SampleScanner::look_inside(size_t planned, ScannedSample& sample) {
  const MemberKind kind = plan_.members[planned].kind;
  if (kind == MemberKind::image) {
    check_image(member_);
  } else if (kind == MemberKind::json) {
    check_json_size(extension_, member_.size);
    const auto label = scan_json(plan_, planned, reader_.content(member_), classes_, fractional_,
                                 /*similar=*/broken_ < kMaxShownSamples);
    if (label) sample.label = label;
  } else if (plan_.label && plan_.label->member == planned) {
    if (member_.size > limits::kLabelMemberBytes)
      refuse(fmt::format("'{}' has {} bytes, too many for a label", extension_, member_.size));
    sample.label =
        classes_.label_of(reader_.content(member_), /*similar=*/broken_ < kMaxShownSamples);
  }
}

void SampleScanner::check_image(const TarMember& member) {
  constexpr uint64_t kHead = 64;
  const auto size = static_cast<int64_t>(member.size);
  const auto read = [&](int64_t offset, int64_t need) -> std::span<const uint8_t> {
    if (offset >= size) return {};
    const std::span<const uint8_t> bytes =
        reader_.peek(member.data + static_cast<uint64_t>(offset),
                     static_cast<uint64_t>(std::min(need, size - offset)));
    return bytes.first(std::min<size_t>(bytes.size(), static_cast<size_t>(size - offset)));
  };
  const std::span<const uint8_t> head = read(0, kHead);
  const std::string format = image_format(head);
  if (format != "JPEG" && format != "PNG" && format != "WebP")
    refuse(fmt::format("'{}': {}", extension_, not_an_image(head)));
  if (exif_orientation(read, size) != 1) ++notes_.turned;
}

void SampleScanner::check_complete(ScannedSample& sample) const {
  for (size_t i = 0; i < plan_.members.size() && sample.problem.empty(); ++i) {
    if (sample.present[i] != 0) continue;
    const PlannedMember& missing = plan_.members[i];
    sample.incomplete = true;
    sample.problem =
        fmt::format("has no {}, only {}",
                    missing.extension.empty() ? "image" : fmt::format("'{}'", missing.extension),
                    printable(join(sample.extensions, ", ")));
  }
}

}  // namespace bv
