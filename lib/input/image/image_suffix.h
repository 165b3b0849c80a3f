// What the name of a file says about its type.
#pragma once

#include <string>

namespace bv {

// Returns whether the name ends like that of an image that can be decoded: .jpg, .jpeg, .png or
// .webp, in any case.
bool has_image_suffix(const std::string& name);
// Returns whether it ends like that of an image that cannot be decoded: .gif, .bmp, .tif or .tiff,
// in any case. In a class folder, a file of this name is an error even if it is a JPEG, PNG or WebP
// file: kOtherSuffix.
bool has_other_image_suffix(const std::string& name);
inline constexpr const char* kOtherSuffix =
    "this JPEG, PNG or WebP has the suffix of another format: rename it";
// Returns the suffix of a name in lower case, for messages: ".txt"; "" if it has none or an unusual
// one.
std::string suffix_of(const std::string& name);

}  // namespace bv
