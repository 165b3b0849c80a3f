#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Expands braces in a string, in the order of a shell:
//     a-{000..127}.tar    numbers, with leading zeros as written; {0..9..3} counts by 3
//     {a..e}              letters
//     {train,val}-0.tar   alternatives, in which there may be more braces
// Several pairs of braces give all combinations; the last pair varies fastest. A string without
// braces is returned unchanged. There is no escape for a brace that is part of a name.
//
// Throws Error(Exit::usage) without a place if the braces do not match, if their content is neither
// a range nor alternatives, or if there are more than a million names or 256 MiB of them.
std::vector<std::string> brace_expansion(std::string_view text);

}  // namespace bv
