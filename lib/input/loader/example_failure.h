// Why an example failed, in the words of a loader's error line.
#pragma once

#include <cstdint>
#include <string>

#include "lib/input/source.h"

namespace bv {

struct ExampleFailure {
  int64_t index = 0;   // of the example
  int64_t row = 0;     // in its batch
  int attempt = 0;     // 0: the example itself; k: its k-th replacement
  bool fatal = false;  // not covered by the error budget
  Exit code = Exit::data;
  std::string text;  // "train/cat/17.jpg: truncated JPEG"
};

// The exception that is being handled (call it in a catch block), as the failure of example
// `index`. Fatal is what the example is not to blame for: every bv::Error but Exit::data, and lack
// of memory. Exit::usage becomes Exit::data, since the run has begun.
ExampleFailure current_failure(const Dataset& data, int64_t index);

}  // namespace bv
