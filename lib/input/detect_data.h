// Detection of data: which source can read a folder, and with which keys. `bvtrain init` uses it.
//
// A source takes part with a detector in its own file, next to its Register<Source, ...>:
//
//     const RegisterDetector idx_detector("idx", "train-images-idx3-ubyte[.gz]...", detect_idx);
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bv {

// The keys of a section `data`, except name and split, with their values.
using DataKeys = std::vector<std::pair<std::string, std::string>>;

// What a detector reports about a folder that its source can read.
struct DetectedData {
  std::string kind;          // in words: "image folder, <class>/*.jpg"
  DataKeys train;            // of the training data
  DataKeys validation = {};  // of the validation data if they differ, for example in the file
  std::string source = {};   // the name of the source; detect_data() fills it in
  // One line for each choice between several candidates: what was chosen, and what was ignored.
  // detect_data() adds the errors of other detectors to the first answer.
  std::vector<std::string> notes = {};
  // The folder may equally be part of another data set. An answer that is not weak takes
  // precedence.
  bool weak = false;
};

// Inspects a folder that exists. Returns nullopt if it is not a folder for this source. Reads names
// of files, and at most the heads of a few files. Throws Error(Exit::usage) if the folder is
// clearly meant for this source but cannot be used.
using Detector = std::function<std::optional<DetectedData>(const std::string& folder)>;

// A global object of this type registers the detector of a source. `expected` says in words what
// the detector looks for: "class folders with images".
struct RegisterDetector {
  RegisterDetector(const std::string& source, const std::string& expected, Detector detect);
};

// Returns the answers of all detectors that recognize the folder, sorted by source. Leaves out weak
// answers if there are others. Throws the errors of detectors, all in one, only if no other
// detector recognizes the folder.
std::vector<DetectedData> detect_data(const std::string& folder);
// Returns what the detectors look for, one string for each.
std::vector<std::string> detectable_data();

}  // namespace bv
