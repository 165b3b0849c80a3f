// What a source knows about a manifest after it has read the file once: where each row is, and what
// is needed without reading the row again. It has a packed form, which the index cache keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/util/error.h"

namespace bv {

// What is wrong with rows: the first problems, and how many more there are.
struct RowProblems {
  std::vector<Error> shown;
  size_t left_out = 0;

  void add(const Error& problem);
};

struct ManifestIndex {
  std::vector<uint64_t> offsets;  // (rows,) in the file
  std::vector<uint32_t> lengths;  // (rows,) in bytes, with the ends of the lines
  std::vector<uint32_t> lines;    // (rows,) from 1
  std::vector<uint32_t> splits;   // (rows,) indices into split_names; empty if there are none
  std::vector<std::string> split_names;  // sorted
  std::vector<int64_t> labels;           // (rows,), or empty if there are no class numbers
  std::vector<std::string> class_names;
  std::vector<std::string> remarks;  // what the user should know about the file, one line each
  // A column or key whose values are names of splits, if the config has no split_column: a warning
  // names it. "" if there is none.
  std::string unused_split;
  std::string layout;  // what the rows hold, packed by the source
  // What is wrong with rows, by split; empty if nothing is. pack() leaves it out.
  std::vector<RowProblems> broken;

  size_t rows() const { return offsets.size(); }
  std::string pack() const;
  // Returns nullopt if the text is not what pack() has returned.
  static std::optional<ManifestIndex> unpack(std::string_view text);
};

}  // namespace bv
