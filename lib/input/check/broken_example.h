// A broken example, and its line in the list that `bvtrain data check` writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bv {

struct BrokenExample {
  std::string data;               // the data set: "input", "evals.val"
  std::string example;            // Dataset::describe()
  std::string file;               // the file with the fault; empty if not known
  std::optional<int64_t> offset;  // of the example, or of the fault in its file, in bytes
  std::string reason;
  // The files that the example names, as it names them (Dataset::files_of()). From these, a reader
  // of the list can tell whether it is still the same example. Empty if the row that names them
  // cannot be read; nullopt if the examples of the data set name no files.
  std::optional<std::vector<std::string>> files = {};
};

// Fills in `file` and `offset` from the names and texts. `where` is the place of the error, and
// `folder` the data_dir of the data set; both may be empty.
void find_file(BrokenExample& broken, const std::string& where, const std::string& folder);
// Sets `file`, and `offset` if the reason states where in the file the fault is.
void blame_file(BrokenExample& broken, const std::string& file);

// Returns {"data": "input", "example": "train/cat/1.jpg", "file": "photos/train/cat/1.jpg",
// "offset": 4096, "reason": "truncated JPEG at byte 4096"} and a newline. What is not known is
// null. `files`, if there are any, stands before the reason. lib/input/quarantine.h reads it.
std::string line_of(const BrokenExample& broken);

}  // namespace bv
