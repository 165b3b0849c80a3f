// Private to lib/config: messages about an unknown key or name, and about a value of a wrong type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Returns a readable list of the names: all of them if they are few or short. Otherwise the few
// that are most similar to `name`, then "... (<where all are listed>)".
std::string nearest_names(std::string_view name, const std::vector<std::string>& known,
                          std::string_view all_are_listed_by);

// Returns "expected a mapping". Appends an example if the key table of `path` has a short one:
// "expected a mapping such as {decay_type: cosine}".
std::string expected_mapping(std::string_view path);
// Adds the example of the key at `path` to the message "expected a list, got ...".
std::string with_list_example(std::string_view path, const std::string& message);

// Returns the types of evaluators that have the key. Returns an empty list if more than three types
// have it, or if `path` is not that of an evaluator.
std::vector<std::string> evaluators_with_key(std::string_view path, std::string_view key);

}  // namespace bv
