// The exit codes of the process in words.
#pragma once

#include <string_view>
#include <vector>

#include "lib/util/error.h"

namespace bv {

struct ExitText {
  Exit code;
  std::string_view name;     // a word or two: "bad usage"
  std::string_view meaning;  // what happened and what to do, in full sentences
};
const std::vector<ExitText>& exit_codes();

}  // namespace bv
