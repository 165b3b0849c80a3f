// Small pictures inside HTML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

std::string base64(std::string_view bytes);

// "data:image/png;base64,..." of HWC bytes, grey (1 channel), RGB (3) or RGBA (4); "" if the
// picture is of another form or its sizes do not fit.
std::string png_data_uri(const std::vector<uint8_t>& pixels, int64_t height, int64_t width,
                         int64_t channels);

}  // namespace bv
