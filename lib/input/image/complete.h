// Whether an image file is whole, from its head and tail alone: fast enough for millions of files.
#pragma once

#include <string>

namespace bv {

// "" for a JPEG (start marker, frame header of a sane size, end marker) or PNG (signature, IHDR,
// IEND), whatever its suffix; else what is wrong: "not a complete JPEG: no end marker (file is 812
// bytes)". Throws nothing.
std::string incomplete_image(const std::string& file);

}  // namespace bv
