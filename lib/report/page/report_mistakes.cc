#include "lib/report/page/report_mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/report/page/class_labels.h"
#include "lib/report/page/html.h"
#include "lib/report/page/png.h"

namespace bv {
namespace {

constexpr size_t kMostMistakes = 48;
constexpr size_t kLongestExampleName = 200;  // bytes
constexpr size_t kMarkup = 250;  // bytes of a figure and its picture, without their content
constexpr double kLeastPicture = 24 * 24;  // pixels; a smaller picture shows nothing
constexpr int64_t kEnlarged = 48;          // px; the pixels of smaller pictures stay sharp

using Mistake = EvalDetails::Wrong;

bool fits_together(const Mistake& wrong) {
  return wrong.height > 0 && wrong.width > 0 && wrong.channels > 0 &&
         wrong.pixels.size() == static_cast<size_t>(wrong.height * wrong.width * wrong.channels);
}

// Returns the picture, downscaled by `factor`. Each pixel is the mean of those that it replaces.
Mistake downscaled(const Mistake& from, int64_t factor) {
  Mistake to;
  to.height = (from.height + factor - 1) / factor;
  to.width = (from.width + factor - 1) / factor;
  to.channels = from.channels;
  to.pixels.reserve(static_cast<size_t>(to.height * to.width * to.channels));
  for (int64_t y = 0; y < to.height; ++y) {
    for (int64_t x = 0; x < to.width; ++x) {
      const int64_t bottom = std::min((y + 1) * factor, from.height);
      const int64_t right = std::min((x + 1) * factor, from.width);
      const int64_t count = (bottom - y * factor) * (right - x * factor);
      for (int64_t c = 0; c < from.channels; ++c) {
        int64_t sum = 0;
        for (int64_t v = y * factor; v < bottom; ++v) {
          for (int64_t u = x * factor; u < right; ++u) {
            sum += from.pixels[static_cast<size_t>((v * from.width + u) * from.channels + c)];
          }
        }
        to.pixels.push_back(static_cast<uint8_t>((sum + count / 2) / count));
      }
    }
  }
  return to;
}

// Returns an <img> of about `most_bytes` at most; empty if the picture would be too small or the
// example has none.
std::string picture(const Mistake& wrong, double most_bytes) {
  if (!fits_together(wrong)) return "";
  // PNG does not compress a noisy picture, and base64 makes it larger by a third.
  const double bytes = static_cast<double>(wrong.pixels.size()) * 4 / 3;
  const auto factor = std::max<int64_t>(1, std::llround(std::ceil(std::sqrt(bytes / most_bytes))));
  const Mistake small = factor > 1 ? downscaled(wrong, factor) : wrong;
  if (factor > 1 && static_cast<double>(small.height * small.width) < kLeastPicture) return "";
  const std::string uri = png_data_uri(small.pixels, small.height, small.width, small.channels);
  if (uri.empty()) return "";
  const bool sharp = std::max(small.height, small.width) < kEnlarged;
  return fmt::format("<img{} src=\"{}\" width=\"{}\" height=\"{}\" alt=\"example {}\">",
                     sharp ? " class=\"sharp\"" : "", uri, small.width, small.height, wrong.index);
}

std::string caption(const Mistake& wrong, const ClassLabels& label) {
  const std::string name = wrong.name.empty() ? fmt::format("example {}", wrong.index)
                                              : clipped_bytes(wrong.name, kLongestExampleName);
  return fmt::format(
      "<figcaption>{} &#8594; <b>{}</b><small>{:.0f} % sure</small><small class=\"file\">{}</small>"
      "</figcaption>",
      label(wrong.truth), label(wrong.guess), 100 * wrong.confidence, escape_html(name));
}

}  // namespace

std::string render_mistakes(const EvalDetails& details, size_t most_bytes) {
  if (details.wrong.empty()) return "";
  const ClassLabels label(details);
  std::vector<std::string> captions;
  size_t used = 2 * kMarkup;
  for (const Mistake& wrong : details.wrong) {
    captions.push_back(caption(wrong, label));
    used += captions.back().size() + kMarkup;
    if (used <= most_bytes && captions.size() <= kMostMistakes) continue;
    used -= captions.back().size() + kMarkup;
    captions.pop_back();
    break;
  }
  if (captions.empty()) return "";
  const double room = static_cast<double>(most_bytes - used) / static_cast<double>(captions.size());
  std::string out =
      "<h3>Wrongly classified</h3>\n<p class=\"hint\">The most confident mistakes: truth &#8594; "
      "prediction</p>\n<div class=\"gallery\">\n";
  for (size_t i = 0; i < captions.size(); ++i) {
    out += "<figure>" + picture(details.wrong[i], room) + captions[i] + "</figure>\n";
  }
  return out + "</div>\n";
}

}  // namespace bv
