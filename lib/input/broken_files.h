#pragma once

#include <string_view>

#include "lib/util/error.h"

namespace bv {

// Error(Exit::usage) of a source that finds broken files when it is opened: one line for each. With
// SourceEnv::keep_broken they are no error.
class BrokenFiles : public Error {
 public:
  explicit BrokenFiles(std::string_view lines) : Error(Error::lines(Exit::usage, lines)) {}
};

}  // namespace bv
