#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/source.h"
#include "lib/input/sources/common/webdataset/tar.h"
#include "lib/input/sources/common/webdataset/webdataset_plan.h"

namespace bv {

// A sample as its headers show it.
struct ScannedSample {
  // Where a member's content is. Contents begin at multiples of kTarBlock.
  struct Place {
    uint32_t block = 0, size = 0;
  };

  uint64_t begin = 0;  // offset of the first header
  std::string key;
  std::vector<std::string> extensions;  // of all its members
  std::vector<Place> places;            // of SamplePlan::members
  std::vector<uint8_t> present;         // for each of these, 1 if the sample has it
  std::optional<ClassLabel> label;
  std::string problem;      // why the sample cannot be read; empty if it can
  bool incomplete = false;  // the problem is that the sample lacks a member

  // Returns "<file> @ offset <begin> (key <key>)".
  std::string where(const std::string& file) const;
};

// Reads the samples of one tar file, one after another: the headers of all members, the content of
// labels and JSON, and the head of images.
class SampleScanner {
 public:
  // `plan` and `classes` must outlive it. `offset`: where a sample begins.
  SampleScanner(const std::string& file, const SamplePlan& plan, const ClassNumbers& classes,
                uint64_t offset = 0);

  // Reads the next sample; false at the end of the tar. Throws Error(Exit::usage) naming the file
  // and the offset from which no more samples can be read. What is wrong with one sample is its
  // `problem`.
  bool next(ScannedSample& sample);

  const FileNotes& notes() const { return notes_; }
  const std::vector<uint8_t>& fractional() const { return fractional_; }
  // After the last sample: TarReader::has_end().
  bool has_end() const { return reader_.has_end(); }

 private:
  bool advance();
  void read_sample(ScannedSample& sample);
  void add(ScannedSample& sample);
  void look_inside(size_t planned, ScannedSample& sample);
  void check_image(const TarMember& member);
  void check_complete(ScannedSample& sample) const;
  void count_unused(const std::string& name);

  const SamplePlan& plan_;
  const ClassNumbers& classes_;
  TarReader reader_;
  TarMember member_;  // the next one, if more_
  std::string key_, extension_;
  bool more_ = false;
  FileNotes notes_;
  std::vector<uint8_t> fractional_;
  size_t broken_ = 0;  // samples with a problem so far
};

// The samples of all tar files of a data set: where each begins, where its members are, and its
// label. Takes 4 bytes per sample, 8 for each member that is read, and 8 for a label.
//
// Read from the index cache if it is there. Otherwise the headers of all files are read, with
// several threads.
class SampleIndex {
 public:
  using Place = ScannedSample::Place;

  // `settings` are those on which the index depends, besides the files. Throws BrokenFiles with a
  // line for each sample that cannot be read; with `keep_broken` they are not an error. Throws
  // Error(Exit::usage) for a file that is damaged, holds no samples, or appears twice.
  SampleIndex(const std::vector<std::string>& files, const SamplePlan& plan,
              const ClassNumbers& classes, const std::string& settings, bool keep_broken);

  int64_t size() const { return std::ssize(begins_); }
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
