// Checks only the beginning and end of an image file, fast enough for millions of files.
#pragma once

#include <string>

namespace bv {

struct ImageFileCheck {
  // Empty if the file is a complete JPEG (start marker, frame header of a permitted size, end
  // marker), PNG (signature, IHDR, IEND) or still WebP (as long as its header says), whatever its
  // suffix. Otherwise says what is wrong: "not a complete JPEG: no end marker (file is 812 bytes)".
  std::string problem;
  int orientation = 1;  // see exif_orientation(); 1 if there is a problem
};

// Throws only TooManyOpenFiles (lib/util/descriptor.h), which says nothing about the file.
ImageFileCheck check_image_file(const std::string& file);

}  // namespace bv
