// Values for a YAML file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Returns YAML text with "$${" for "${": a config that is read replaces no ${NAME} in it.
std::string without_references(std::string_view text);

// Returns a UTF-8 string as a YAML scalar that a config reads back as the same string: plain where
// that is safe, otherwise in double quotes, and with "$${" for "${".
std::string yaml_text(std::string_view text);
// Returns a list of such scalars in brackets: "[age, sex]".
std::string yaml_list(const std::vector<std::string>& items);

}  // namespace bv
