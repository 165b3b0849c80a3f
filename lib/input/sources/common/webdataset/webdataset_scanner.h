#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/input/source.h"
#include "lib/input/sources/common/webdataset/tar.h"
#include "lib/input/sources/common/webdataset/webdataset_plan.h"

namespace bv {

// How many of the samples that cannot be read are reported, each with its problem.
inline constexpr size_t kMaxShownSamples = 20;

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

  // Reads the next sample. Returns false at the end of the tar. A fault of this sample alone is
  // told in its `problem`. Throws Error(Exit::usage) if no more samples can be read; it names the
  // file and the offset.
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

// Adds numbers of members by suffix, for FileNotes::other_types. If there are more than
// limits::kMemberTypes suffixes, the rest is counted as "".
void add_types(const std::map<std::string, int64_t>& from, std::map<std::string, int64_t>& to);

}  // namespace bv
