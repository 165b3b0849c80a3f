// Options that several commands have.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "app/arguments.h"

namespace bv {

// Checks that a value is a decimal integer from `least` to `most`, without leading zeros. Every
// option with an integer must have this check, because CLI11 reads 010 as 8 and takes 0x10.
CLI::Validator integer_from(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());

// Checks that a value is a finite number above 0.
CLI::Validator positive_number();

// Adds --set, whose values are appended to those of a --set before the verb.
void add_set(CLI::App& app, std::vector<std::string>& sets, const std::string& help);

// Adds --devices to a command that runs in one process. `task` says what the device does.
CLI::Option* add_device(CLI::App& app, Arguments& out, const std::string& task);

void add_json(CLI::App& app, Arguments& out);

}  // namespace bv
