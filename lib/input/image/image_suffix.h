// What the name of a file says about its type.
#pragma once

#include <string>

namespace bv {

// Returns whether the name ends like that of an image that can be decoded: .jpg, .jpeg, .png or
// .webp, in any case.
bool has_image_suffix(const std::string& name);
// Returns the suffix of a name in lower case, for messages: ".txt"; "" if it has none or an unusual
// one.
std::string suffix_of(const std::string& name);

}  // namespace bv
