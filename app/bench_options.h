// The options of `bvtrain bench` and its subcommands.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "app/arguments.h"

namespace bv {

// Adds the command. Values go to `out` and `sets`, which must outlive `app`.
CLI::App* add_bench(CLI::App& app, Arguments& out, std::vector<std::string>& sets);

}  // namespace bv
