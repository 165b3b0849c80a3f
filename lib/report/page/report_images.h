// The training images on the report's page.
#pragma once

#include <string>

#include "lib/report/picture.h"

namespace bv {

// Returns HTML with the images, made smaller where needed: at most 300 kB. Empty if there are none.
std::string render_images(const LoggedImages& logged);

}  // namespace bv
