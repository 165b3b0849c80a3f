// Private to lib/config: messages about an unknown key or name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Returns a readable list of the names: all of them if they are few or short. Otherwise the few
// that are most similar to `name`, then "... (<where all are listed>)".
std::string nearest_names(std::string_view name, const std::vector<std::string>& known,
                          std::string_view all_are_listed_by);

}  // namespace bv
