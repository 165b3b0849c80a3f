// Options that several commands have.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "app/arguments.h"

namespace bv {

// Checks that a value is an integer of at least `least`.
CLI::Validator integer_from(int64_t least);

// Checks that a value is a finite number above 0.
CLI::Validator positive_number();

// Adds --set, whose values are appended to those of a --set before the verb.
void add_set(CLI::App& app, std::vector<std::string>& sets, const std::string& help);

// Adds --devices to a command that runs in one process. `task` says what the device does.
CLI::Option* add_device(CLI::App& app, Arguments& out, const std::string& task);

void add_json(CLI::App& app, Arguments& out);

}  // namespace bv
