#include "lib/model/transformer/patches.h"

#include <ATen/ops/constant_pad_nd.h>
#include <fmt/format.h>

#include "lib/util/text.h"

namespace bv {

at::Tensor patches(const at::Tensor& image, int64_t height, int64_t width) {
  const int64_t rows = image.size(1) / height, columns = image.size(2) / width;
  return image.narrow(1, 0, rows * height)
      .narrow(2, 0, columns * width)
      .unflatten(2, {columns, width})
      .unflatten(1, {rows, height})
      .transpose(2, 3)
      .flatten(3);
}

std::string cut_off_text(int64_t height, int64_t width, int64_t patch_height, int64_t patch_width) {
  const int64_t rows = height % patch_height, columns = width % patch_width;
  if (rows == 0 && columns == 0) return "";
  const auto lost = [](int64_t count, const char* noun) {
    return count == 0 ? "" : counted(count, noun);
  };
  return fmt::format("images of {}x{} with patches of {}x{}: the last {}{}{} of pixels {} not used",
                     height, width, patch_height, patch_width, lost(columns, "column"),
                     rows > 0 && columns > 0 ? " and " : "", lost(rows, "row"),
                     rows + columns == 1 ? "is" : "are");
}

at::Tensor pad_to_patches(const at::Tensor& image, int64_t height, int64_t width) {
  const auto missing = [](int64_t size, int64_t patch) { return (patch - size % patch) % patch; };
  const int64_t rows = missing(image.size(1), height), columns = missing(image.size(2), width);
  if (rows == 0 && columns == 0) return image;
  return at::constant_pad_nd(
      image, {0, 0, columns / 2, columns - columns / 2, rows / 2, rows - rows / 2}, 0);
}

}  // namespace bv
