#include "lib/report/page/report_images.h"

#include <fmt/format.h>

#include "lib/report/page/png.h"

namespace bv {

std::string render_images(const LoggedImages& logged) {
  constexpr int64_t kMostSide = 64;  // 16 images of 64 x 64 in colour are 0.26 MB as base64
  constexpr int64_t kColumns = 8;
  std::vector<Picture> small;
  for (const Picture& image : logged.images) small.push_back(shrunk(image, kMostSide));
  const Picture all = tiled(small, kColumns);
  const std::string uri = png_data_uri(all.pixels, all.height, all.width, all.channels);
  if (uri.empty()) return "";
  return fmt::format(
      "<section><h2>Training images</h2>\n<p class=\"hint\">The first images of the batch of step "
      "{}, as the model gets them. Black and white are the minimum and maximum of all.</p>\n<img "
      "class=\"sharp\" src=\"{}\" width=\"{}\" height=\"{}\" alt=\"training images\"></section>\n",
      logged.step, uri, all.width, all.height);
}

}  // namespace bv
