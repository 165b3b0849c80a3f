#pragma once

#include <string_view>

#include "lib/util/error.h"

namespace bv {

// Error(Exit::usage) of a source that finds broken files when it is opened: one line for each. With
// SourceEnv::keep_broken they are no error.
class BrokenFiles : public Error {
 public:
  explicit BrokenFiles(std::vector<Error> problems, size_t left_out = 0)
      : Error(Error::all(Exit::usage, std::move(problems), left_out)) {}
};

}  // namespace bv
