// `input.max_pixels`: the largest image that is decoded.
#pragma once

#include <cstdint>

#include "lib/config/config.h"
#include "lib/config/key_table.h"
#include "lib/util/limits.h"

namespace bv {

static_assert(limits::kImagePixels == 268'435'456);
inline constexpr KeyText kMaxPixelsKey = {
    "max_pixels",
    "int 1..268435456",
    "268435456",
    "Maximum size of an image in pixels: height times width. A larger image counts as broken, in "
    "training, evaluation and prediction. A decoded image takes 3 bytes per pixel in each thread, "
    "and up to 6 more during decoding, so this limits the memory that a malicious file can take.",
    "50000000",
    "-"};

// Reads the key. The limit holds for all images that the process decodes from now on. Records a
// problem with the config.
void read_max_pixels(const Config& input);

// Returns the limit.
int64_t max_pixels();

// Throws Error(Exit::data) if an image of this size is above the limit, or is larger than
// check_image_size() allows. The error names no file; the caller adds it.
void check_decoded_size(int64_t height, int64_t width);

}  // namespace bv
