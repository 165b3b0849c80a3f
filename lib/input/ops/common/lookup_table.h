// Tables from strings to numbers, for the op `lookup`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace bv {

using LookupTable = std::unordered_map<std::string, int64_t>;

// Reads a table from a file:
// - a UTF-8 text file without `separator`: each line is a string, numbered by its line from 0;
// - a UTF-8 text file with `separator`: each line is "<string><separator><number>";
// - an .npz file: the number of a string is its index in the one-dimensional array `npzkey`.
// Throws Error(Exit::usage) naming the file and line, for example for a string with two numbers.
LookupTable read_lookup_table(const std::string& file, const std::string& npzkey,
                              const std::optional<std::string>& separator);

}  // namespace bv
