// Tables from strings to numbers, for the op `lookup`: reference section 12.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace bv {

using LookupTable = std::unordered_map<std::string, int64_t>;

// A text file (UTF-8): each line's number, from 0; or if `separator` is given, "string<separator>
// number" lines. An .npz file: each string's index in its one-dimensional array `npzkey`.
// Throws Error(Exit::usage) naming the file and the line: a string with two numbers, a line that
// is no pair.
LookupTable read_lookup_table(const std::string& file, const std::string& npzkey,
                              const std::optional<std::string>& separator);

}  // namespace bv
