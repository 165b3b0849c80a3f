#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Returns the names that a text with braces stands for, in the order in which a shell lists them:
//     a-{000..127}.tar    numbers, with leading zeros as written; {0..9..3} counts by 3
//     {a..e}              letters
//     {train,val}-0.tar   alternatives, in which there may be more braces
// Several pairs of braces stand for all combinations; the last pair varies fastest. A text without
// braces stands for itself. There is no way to write a brace that is part of a name.
//
// Throws Error(Exit::usage) without a place if the braces do not match, if their content is neither
// a range nor alternatives, or if there are more than a million names or 256 MiB of them.
std::vector<std::string> brace_expansion(std::string_view text);

}  // namespace bv
