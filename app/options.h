// The commands and flags as CLI11 parses them. Other files include app/arguments.h, which does not
// need CLI11.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

#include "app/arguments.h"

namespace bv {

struct Options {
  // Values go to `out`, which must outlive this. Values that need more work stay in the members
  // below.
  explicit Options(Arguments& out);

  CLI::App app{"bvtrain: trains image models from a YAML file", "bvtrain"};
  std::vector<std::string> sets;  // of --set, of any command
  std::string dry_run;
  CLI::Option* dry = nullptr;
  std::vector<std::pair<Arguments::Verb, CLI::App*>> verbs;
};

}  // namespace bv
