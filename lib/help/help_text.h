// What `bvtrain help WORD` prints.
#pragma once

#include <string>

#include "lib/help/command_line.h"

namespace bv {

// Returns the text about a word: a key ("lr", "evals.*.pp_fn", "depth"), a plug-in ("vit",
// "resize"), a kind of plug-in ("ops"), an exit code ("75"), a verb or a flag ("--set"), or a word
// of another trainer that has a counterpart here. Throws Error(Exit::usage) for any other word, and
// suggests the nearest one.
std::string help_on(const std::string& word, const CommandLine& command_line);

// Returns what WORD may be: the text that `bvtrain help` prints without a word.
std::string help_overview(const CommandLine& command_line);

}  // namespace bv
