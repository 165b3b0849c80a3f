// Checks whether an image file is complete by its head and tail alone, fast enough for millions of
// files.
#pragma once

#include <string>

namespace bv {

// Returns "" for a complete JPEG (start marker, frame header of a permitted size, end marker) or
// PNG (signature, IHDR, IEND), whatever its suffix. Otherwise returns what is wrong: "not a
// complete JPEG: no end marker (file is 812 bytes)". Does not throw.
std::string image_file_problem(const std::string& file);

}  // namespace bv
