#pragma once

#include <string_view>

#include "lib/util/error.h"

namespace bv {

// The Error(Exit::usage) of a source that finds broken files when it is opened, with one line for
// each file. With SourceEnv::keep_broken, broken files are not an error.
class BrokenFiles : public Error {
 public:
  explicit BrokenFiles(std::vector<Error> problems, size_t left_out = 0)
      : Error(Error::all(Exit::usage, std::move(problems), left_out)) {}
};

}  // namespace bv
