#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/source.h"
#include "lib/input/sources/common/webdataset/tar.h"
#include "lib/input/sources/common/webdataset/webdataset_plan.h"
#include "lib/input/sources/common/webdataset/webdataset_scanner.h"

namespace bv {

// The samples of all tar files of a data set: where each begins, where its members are, and its
// label. Takes 4 bytes per sample, 8 for each member that is read, and 8 for a label.
//
// Read from the index cache if it is there. Otherwise the headers of all files are read, with
// several threads.
class SampleIndex {
 public:
  using Place = ScannedSample::Place;

  // `settings` are those on which the index depends, besides the files. Throws BrokenFiles if
  // samples cannot be read, with a line for each of the first 20, unless `keep_broken`. Throws
  // Error(Exit::usage) for a file that is damaged, holds no samples, or appears twice.
  SampleIndex(const std::vector<std::string>& files, const SamplePlan& plan,
              const ClassNumbers& classes, const std::string& settings, bool keep_broken);

  int64_t size() const { return std::ssize(begins_); }
  // Returns the number of samples in each file.
  std::vector<int64_t> file_lengths() const;
  // Return the number of the file that has a sample, and the offset at which the sample begins.
  size_t file_of(int64_t sample) const;
  uint64_t begin(int64_t sample) const { return begins_.at(sample) * kTarBlock; }
  // Returns whether a sample cannot be read; place() is then meaningless.
  bool is_broken(int64_t sample) const { return place(sample, 0).size == kBroken; }
  // member < SamplePlan::stored
  Place place(int64_t sample, size_t member) const { return places_.at(sample * stored_ + member); }
  // (size(),) int64, Source::kNoLabel for a sample that cannot be read; undefined if the plan has
  // no label.
  const at::Tensor& labels() const { return labels_; }
  // For each feature of the plan, 1 if a number of it in JSON is not an integer.
  const std::vector<uint8_t>& fractional() const { return fractional_; }
  const FileNotes& notes() const { return notes_; }

 private:
  static constexpr uint32_t kBroken = 0xFFFFFFFF;  // as the size of a sample's first member
  struct Scanned;

  void build(const std::vector<std::string>& files, const SamplePlan& plan,
             const ClassNumbers& classes, bool keep_broken);
  static Scanned scan(const std::string& file, const SamplePlan& plan, const ClassNumbers& classes);
  void note_missing_ends(const std::vector<std::string>& files, const std::vector<Scanned>& found);
  void note_unused_labels(const SamplePlan& plan, const std::vector<Scanned>& found);
  void merge(std::vector<Scanned> files, bool labelled);
  // The stored form: the fields of the class one after another, arrays with their lengths.
  std::string pack() const;
  bool unpack(std::string_view text, size_t files, const SamplePlan& plan, bool keep_broken);

  size_t stored_ = 0;
  std::vector<uint64_t> file_ends_;  // (files,) the first sample of the next file
  std::vector<uint32_t> begins_;     // (samples,) in blocks
  std::vector<Place> places_;        // (samples, stored_)
  at::Tensor labels_;
  std::vector<uint8_t> fractional_;
  uint64_t broken_ = 0;  // samples
  FileNotes notes_;
};

}  // namespace bv
