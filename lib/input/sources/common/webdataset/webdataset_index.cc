#include "lib/input/sources/common/webdataset/webdataset_index.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lib/input/broken_files.h"
#include "lib/input/sources/common/index_cache.h"
#include "lib/input/sources/common/packed_text.h"
#include "lib/util/limits.h"
#include "lib/util/rng.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {
constexpr std::string_view kSampleIndexFormat = "bvtrain webdataset 6";
constexpr std::string_view kUsualLabel = "cls";  // the extension of the member

// Returns whether examples have no label although the config does not say so.
bool lacks_label(const SamplePlan& plan) {
  return !plan.chosen && !plan.label &&
         std::none_of(plan.features.begin(), plan.features.end(),
                      [](const PlannedFeature& feature) { return feature.name == "label"; });
}

}  // namespace

// The labels that are names, or those that are numbers.
struct LabelForm {
  uint64_t count = 0;
  std::string where;  // the first one's sample
  int64_t number = 0;

  void add(const LabelForm& other) {
    if (count == 0) {
      where = other.where;
      number = other.number;
    }
    count += other.count;
  }
};

struct LabelForms {
  LabelForm names, numbers;

  // Throws Error(Exit::usage) at one of the rarer form if there are both.
  void check_equal(const std::vector<std::string>& classes) const {
    if (names.count == 0 || numbers.count == 0) return;
    const bool name = names.count < numbers.count;
    const std::string of_name = classes.at(names.number);
    throw Error(Exit::usage, name ? names.where : numbers.where,
                fmt::format("the label '{}' is a {}, but {} has the label '{}'",
                            name ? of_name : std::to_string(numbers.number),
                            name ? "name" : "number", name ? numbers.where : names.where,
                            name ? std::to_string(numbers.number) : of_name));
  }
};

// One file's part of the index.
struct SampleIndex::Scanned {
  std::vector<uint32_t> begins;
  std::vector<Place> places;
  std::vector<int64_t> labels;
  std::vector<uint8_t> fractional;
  FileNotes notes;
  LabelForms forms;
  std::vector<Error> problems;
  uint64_t broken = 0;
  uint64_t unused_labels = 0;  // samples with kUsualLabel, if the plan lacks a label
  bool has_end = false;
};

SampleIndex::SampleIndex(const std::vector<std::string>& files, const SamplePlan& plan,
                         const ClassNumbers& classes, const std::string& settings, bool keep_broken)
    : stored_(plan.stored) {
  const std::vector<FileStamp> stamps = stamps_of(files);
  const std::string format = fmt::format("{} {:016x}", kSampleIndexFormat, hash64(settings));
  if (const auto packed = load_index(format, stamps);
      packed && unpack(*packed, files.size(), plan, keep_broken))
    return;
  build(files, plan, classes, keep_broken);
  store_index(format, stamps, pack());
}

SampleIndex::Scanned SampleIndex::scan(const std::string& file, const SamplePlan& plan,
                                       const ClassNumbers& classes) {
  Scanned found;
  SampleScanner scanner(file, plan, classes);
  const bool unlabelled = lacks_label(plan);
  std::vector<uint64_t> keys;                    // hashes
  std::vector<std::optional<uint64_t>> lacking;  // for each problem, the key if it is a lack
  for (ScannedSample sample; scanner.next(sample);) {
    poll_signals();
    keys.push_back(hash64(sample.key));
    const bool broken = !sample.problem.empty();
    if (broken && ++found.broken <= kMaxShownSamples) {
      found.problems.emplace_back(Exit::usage, sample.where(file), sample.problem);
      lacking.push_back(sample.incomplete ? std::optional(keys.back()) : std::nullopt);
    }
    if (broken) sample.places[0].size = kBroken;
    if (unlabelled) {
      const auto& members = sample.extensions;
      found.unused_labels +=
          std::find(members.begin(), members.end(), kUsualLabel) != members.end();
    }
    found.begins.push_back(static_cast<uint32_t>(sample.begin / kTarBlock));
    found.places.insert(found.places.end(), sample.places.begin(),
                        sample.places.begin() + static_cast<ptrdiff_t>(plan.stored));
    const bool has_label = !broken && sample.label;
    if (plan.label) found.labels.push_back(has_label ? sample.label->number : Source::kNoLabel);
    if (has_label && !sample.label->both) {
      LabelForm& form = sample.label->named ? found.forms.names : found.forms.numbers;
      if (form.count++ == 0) {
        form.where = sample.where(file);
        form.number = sample.label->number;
      }
    }
  }
  if (found.begins.empty())
    throw Error(Exit::usage, file,
                "holds no samples: no member of the tar is called <key>.<extension>");
  for (size_t i = 0; i < lacking.size(); ++i) {
    if (!lacking[i] || std::count(keys.begin(), keys.end(), *lacking[i]) == 1) continue;
    const Error& bare = found.problems[i];
    found.problems[i] = Error(Exit::usage, bare.where(), bare.message() + std::string(kScattered));
  }
  found.fractional = scanner.fractional();
  found.notes = scanner.notes();
  found.has_end = scanner.has_end();
  return found;
}

void SampleIndex::build(const std::vector<std::string>& files, const SamplePlan& plan,
                        const ClassNumbers& classes, bool keep_broken) {
  std::vector<Scanned> found(files.size());
  scan_files(files.size(), "reading the headers of tar files",
             [&](size_t i) { found[i] = scan(files[i], plan, classes); });
  std::vector<Error> problems;
  LabelForms forms;
  broken_ = 0;
  for (Scanned& file : found) {
    broken_ += file.broken;
    forms.names.add(file.forms.names);
    forms.numbers.add(file.forms.numbers);
    for (Error& problem : file.problems) {
      if (problems.size() < kMaxShownSamples) problems.push_back(std::move(problem));
    }
  }
  if (broken_ > 0 && !keep_broken) {
    const size_t left_out = broken_ - problems.size();
    throw BrokenFiles(std::move(problems), left_out);
  }
  forms.check_equal(classes.names());
  fractional_.assign(plan.features.size(), 0);
  note_missing_ends(files, found);
  note_unused_labels(plan, found);
  merge(std::move(found), plan.label.has_value());
}

// A download that breaks off between two members leaves a tar that is valid except for its end.
void SampleIndex::note_missing_ends(const std::vector<std::string>& files,
                                    const std::vector<Scanned>& found) {
  std::vector<std::string> names;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!found[i].has_end) names.push_back(files[i]);
  }
  if (names.empty()) return;
  notes_.remarks.push_back(
      fmt::format("{} of {} tar files may be cut off, because the block of zeros at the end is "
                  "missing; compare their sizes with those of the originals: {}",
                  names.size(), files.size(), short_list(names, /*counted=*/false)));
}

// One sample without a class, the first one, is enough for all examples to have no label.
void SampleIndex::note_unused_labels(const SamplePlan& plan, const std::vector<Scanned>& found) {
  uint64_t labels = 0, samples = 0;
  for (const Scanned& file : found) {
    labels += file.unused_labels;
    samples += file.begins.size();
  }
  if (labels == 0) return;
  notes_.remarks.push_back(
      fmt::format("examples have no `label`, because {}, which determines the features, has no "
                  "'{}'; {} of {} samples have one: correct that sample or remove it",
                  plan.sample, kUsualLabel, labels, samples));
}

void SampleIndex::merge(std::vector<Scanned> files, bool labelled) {
  size_t samples = 0;
  for (const Scanned& file : files) samples += file.begins.size();
  begins_.reserve(samples);
  places_.reserve(samples * stored_);
  if (labelled) labels_ = at::empty({static_cast<int64_t>(samples)}, at::kLong);
  auto* labels = labelled ? labels_.mutable_data_ptr<int64_t>() : nullptr;
  for (Scanned& file : files) {
    if (labelled) std::copy(file.labels.begin(), file.labels.end(), labels + begins_.size());
    begins_.insert(begins_.end(), file.begins.begin(), file.begins.end());
    places_.insert(places_.end(), file.places.begin(), file.places.end());
    file_ends_.push_back(begins_.size());
    for (size_t i = 0; i < fractional_.size(); ++i) fractional_[i] |= file.fractional[i];
    notes_.turned += file.notes.turned;
    add_types(file.notes.other_types, notes_.other_types);
    file = {};  // frees its memory
  }
  notes_.images = size();
}

std::vector<int64_t> SampleIndex::file_lengths() const {
  std::vector<int64_t> lengths(file_ends_.size());
  std::adjacent_difference(file_ends_.begin(), file_ends_.end(), lengths.begin());
  return lengths;
}

size_t SampleIndex::file_of(int64_t sample) const {
  return static_cast<size_t>(
      std::upper_bound(file_ends_.begin(), file_ends_.end(), static_cast<uint64_t>(sample)) -
      file_ends_.begin());
}

std::string SampleIndex::pack() const {
  PackedText packed;
  packed.number(broken_);
  packed.number(notes_.turned);
  packed.number(notes_.other_types.size());
  for (const auto& [suffix, count] : notes_.other_types) {
    packed.text(suffix);
    packed.number(count);
  }
  packed.texts(notes_.remarks);
  packed.numbers(fractional_);
  packed.numbers(file_ends_);
  packed.numbers(begins_);
  packed.numbers(places_);
  if (labels_.defined())
    packed.numbers<int64_t>(
        {labels_.const_data_ptr<int64_t>(), static_cast<size_t>(labels_.numel())});
  return packed.take();
}

// Changes nothing and returns false if the packed index does not fit.
bool SampleIndex::unpack(std::string_view text, size_t files, const SamplePlan& plan,
                         bool keep_broken) {
  SampleIndex read(*this);
  UnpackedText packed(text);
  read.broken_ = packed.number();
  read.notes_.turned = static_cast<int64_t>(packed.number());
  for (uint64_t types = packed.number(); types > 0 && !packed.failed(); --types) {
    const std::string suffix(packed.text());
    read.notes_.other_types[suffix] = static_cast<int64_t>(packed.number());
  }
  read.notes_.remarks = packed.texts();
  read.fractional_ = packed.numbers<uint8_t>();
  read.file_ends_ = packed.numbers<uint64_t>();
  read.begins_ = packed.numbers<uint32_t>();
  read.places_ = packed.numbers<Place>();
  if (plan.label) {
    const std::vector<int64_t> labels = packed.numbers<int64_t>();
    read.labels_ = at::tensor(labels, at::kLong);
  }
  const size_t samples = read.begins_.size();
  const bool fits = packed.whole() && read.fractional_.size() == plan.features.size() &&
                    read.file_ends_.size() == files && read.places_.size() == samples * stored_ &&
                    std::is_sorted(read.file_ends_.begin(), read.file_ends_.end()) &&
                    read.file_ends_.back() == samples &&
                    (!plan.label || read.labels_.numel() == std::ssize(read.begins_));
  const bool bounded =
      std::all_of(read.places_.begin(), read.places_.end(), [](const Place& place) {
        return place.size <= limits::kRecordBytes || place.size == kBroken;
      });
  // Only a new scan of the files can name the samples that cannot be read.
  if (!fits || !bounded || (read.broken_ > 0 && !keep_broken)) return false;
  read.notes_.images = read.size();
  *this = std::move(read);
  return true;
}

}  // namespace bv
