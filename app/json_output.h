// The output of --json.
#pragma once

#include <nlohmann/json.hpp>

namespace bv {

// Prints one JSON object to stdout. Strings that are not UTF-8 get U+FFFD for the invalid bytes.
void print_json(const nlohmann::ordered_json& object);

}  // namespace bv
