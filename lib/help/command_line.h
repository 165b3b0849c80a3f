// The verbs and flags of the command line as data, for `bvtrain help`, the man page and shell
// completion. app/arguments.cc fills it from the parser that reads the flags.
#pragma once

#include <string>
#include <vector>

namespace bv {

struct FlagText {
  std::vector<std::string> names;  // "--help", "-h"; a positional argument has a bare name
  std::string meaning;
  std::string variable;              // environment variable; may be empty
  std::vector<std::string> choices;  // empty: any value
  bool takes_value = false;
};

struct VerbText {
  std::string name;  // "", "predict", "bench scaling"
  std::string about;
  std::vector<FlagText> flags;
};

using CommandLine = std::vector<VerbText>;  // the first one has no name: training

}  // namespace bv
