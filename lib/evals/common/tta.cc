#include "lib/evals/common/tta.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/flip.h>

#include <algorithm>
#include <cstdlib>

#include "lib/config/key_table.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable tta_keys(
    "evals.*.tta",
    {"Test-time augmentation: outputs are averaged over several augmented views of each image. "
     "This is often more accurate. The evaluation time grows with the number of views: two with "
     "`mirror`, three with `shift`, six with both. The command `predict` and exported models use "
     "only the original image, so their results differ.",
     "mirror: true\nshift: 1"},
    {{"mirror", "bool", "false",
      "Whether to add views mirrored left to right. Leave it out where left and right matter, as "
      "for digits and text."},
     {"shift", "int >= 0", "0",
      "Number of pixels by which two more views are shifted: one up and left, one down and right. "
      "Together they have the weight of the original. Missing pixels at the border are mirrored. 0 "
      "adds no views."}});

// Returns x moved by some pixels along an axis, towards higher indices if `pixels` is positive.
// Missing pixels at the border are mirrored.
at::Tensor moved(const at::Tensor& x, int64_t axis, int64_t pixels) {
  const int64_t n = x.size(axis), width = std::abs(pixels);
  const int64_t from = pixels > 0 ? 1 : n - 1 - width;
  const at::Tensor border = at::flip(x.narrow(axis, from, width), {axis});
  const at::Tensor rest = x.narrow(axis, pixels > 0 ? 0 : width, n - width);
  return pixels > 0 ? at::cat({border, rest}, axis) : at::cat({rest, border}, axis);
}

}  // namespace

Tta read_tta(const Config& config) {
  Tta tta;
  tta.mirror = config.get<bool>("mirror", false);
  tta.shift = config.get<int64_t>("shift", 0);
  if (tta.shift < 0) {
    config.problem("shift", fmt::format("must not be negative, got {}", tta.shift));
    tta.shift = 0;
  }
  config.done();
  return tta;
}

std::vector<std::pair<at::Tensor, double>> tta_forms(const at::Tensor& images, const Tta& tta) {
  std::vector<std::pair<at::Tensor, double>> forms = {{images, 1}};
  if (tta.shift > 0) {
    const int64_t h = images.size(1), w = images.size(2);
    if (tta.shift >= std::min(h, w)) {
      throw Error(
          Exit::usage, "",
          fmt::format("tta.shift of {} pixels is too much for images of {}x{}", tta.shift, h, w));
    }
    forms[0].second = 0.5;
    for (const int64_t pixels : {-tta.shift, tta.shift})
      forms.emplace_back(moved(moved(images, 1, pixels), 2, pixels), 0.25);
  }
  if (!tta.mirror) return forms;
  for (size_t i = 0, n = forms.size(); i < n; ++i) {
    forms[i].second /= 2;
    forms.emplace_back(at::flip(forms[i].first, {2}), forms[i].second);
  }
  return forms;
}

}  // namespace bv
