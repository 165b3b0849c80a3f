// What to say about a command line that CLI11 rejects.
#pragma once

#include <string>

namespace bv {

// Returns CLI11's message in plain words: "--config: is given 2 times" for "--config: At Most 1
// required but received 2". `command` is the whole name of the command: "bvtrain ckpt diff".
std::string usage_text(const std::string& message, const std::string& command);

}  // namespace bv
