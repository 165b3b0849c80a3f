// Small images inside HTML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

std::string base64(std::string_view bytes);

// Returns "data:image/png;base64,..." for [height, width, channels] pixels: grey (1 channel), RGB
// (3) or RGBA (4). Empty if there is another number of channels or the sizes do not fit together.
std::string png_data_uri(const std::vector<uint8_t>& pixels, int64_t height, int64_t width,
                         int64_t channels);

}  // namespace bv
