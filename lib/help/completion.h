// Scripts that complete the command line in bash, zsh and fish: commands, flags, their values, keys
// after --set, the words that a key can be set to, and files.
#pragma once

#include <string>

#include "lib/help/command_line.h"

namespace bv {

// `shell`: "bash", "zsh" or "fish". Throws Error(Exit::usage) for any other.
std::string completion_script(const std::string& shell, const CommandLine& command_line);

}  // namespace bv
