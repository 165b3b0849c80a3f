// What to say about a command line that CLI11 rejects.
#pragma once

#include <string>
#include <vector>

namespace bv {

// Returns CLI11's message in plain words: "--config: is given 2 times" for "--config: At Most 1
// required but received 2". `command` is the whole name of the command: "bvtrain ckpt diff".
std::string usage_text(const std::string& message, const std::string& command);

// Returns the message for a word that is not one of the commands `known`. `first`: the word takes
// the place of the verb, where users of other programs write a config or `train`.
std::string unknown_command_text(const std::string& word, const std::vector<std::string>& known,
                                 bool first);

}  // namespace bv
