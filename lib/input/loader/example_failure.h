// ExampleFailure: why an example could not be computed, in the words of the loader's error line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/input/dataset.h"

namespace bv {

struct ExampleFailure {
  int64_t index = 0;       // of the example in the data set
  int64_t row = 0;         // in its batch
  int attempt = 0;         // 0: the example itself; k: its k-th replacement
  bool fatal = false;      // stops the run whatever the error budget is
  bool of_config = false;  // the config is wrong, and the exception names the place
  Exit code = Exit::data;
  std::string name;                                    // "train/cat/17.jpg"
  std::string reason;                                  // "truncated JPEG"
  std::optional<std::vector<std::string>> files = {};  // Dataset::files_of()
  std::string text() const { return name + ": " + reason; }
};

// Returns " (in data/train-labels-idx1-ubyte)", for messages about the label of an example; "" if
// no single file has the labels.
std::string in_labels_file(const Dataset& data, int64_t index);

// Returns the exception that is being handled as the failure of example `index`. Call it inside a
// catch block.
//
// A failure is fatal if the example can be read but does not fit (LabelError), or is not at fault:
// every bv::Error except Exit::data, and lack of memory. Exit::usage becomes Exit::data, because
// the run has already begun.
ExampleFailure current_failure(const Dataset& data, int64_t index);

}  // namespace bv
