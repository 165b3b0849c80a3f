#include "lib/init/sampled_images.h"

#include <ATen/ops/max.h>
#include <ATen/ops/min.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <span>
#include <thread>

#include "lib/input/image/decode.h"
#include "lib/input/image/orientation.h"
#include "lib/input/image/png.h"
#include "lib/input/shuffle.h"
#include "lib/util/error.h"
#include "lib/util/host.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr uint64_t kSampleSeed = 0x1417;
constexpr int64_t kMostBytes = int64_t{256} << 20;  // of encoded images
constexpr int kMostThreads = 16;

// The data kept per image.
struct OneImage {
  bool tried = false, encoded = false, grey = false;
  bool turned = false, deep = false;  // as in SampledImages
  std::string problem;
  std::vector<int64_t> shape;  // of the upright image
  at::ScalarType type = at::kByte;
  double least = 0, most = 0;
};

// Returns whether the channels of (h, w, 3) uint8 are equal. In JPEG files of grey scans they may
// differ by rounding.
bool looks_grey(const at::Tensor& image) {
  if (image.size(2) == 1) return true;
  if (image.size(2) != 3 || image.scalar_type() != at::kByte) return false;
  constexpr int kRounding = 2;
  const at::Tensor dense = image.contiguous();
  const uint8_t* pixel = dense.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < dense.numel(); i += 3) {
    const auto [low, high] = std::minmax({pixel[i], pixel[i + 1], pixel[i + 2]});
    if (high - low > kRounding) return false;
  }
  return true;
}

// Throws if an image contains an infinite value or NaN. A NaN is both its minimum and its maximum.
void require_finite_image(const OneImage& image, const std::string& name) {
  for (const double value : {image.least, image.most}) {
    if (!std::isfinite(value)) {
      throw Error(
          Exit::usage, "",
          fmt::format("'image' of {} holds the value {}; replace values that are not finite", name,
                      std::isnan(value) ? "nan" : short_number(value)));
    }
  }
}

OneImage look_at(const Source& source, size_t split, int64_t index, std::atomic<int64_t>& bytes) {
  OneImage seen;
  try {
    const Example example = source.read(split, index);
    const auto found = example.find("image");
    if (found == example.end())
      throw Error(Exit::usage, "", "the examples have no feature 'image'");
    at::Tensor image = found->second;
    seen.encoded = image.dim() == 1 && image.scalar_type() == at::kByte;
    if (seen.encoded) {
      bytes += image.numel();
      const at::Tensor file = image;
      const std::span<const uint8_t> content{file.const_data_ptr<uint8_t>(),
                                             static_cast<size_t>(file.numel())};
      const int orientation = exif_orientation(content);
      image = turn_upright(decode_image(content, /*channels=*/0, /*precise=*/false), orientation);
      seen.turned = orientation != 1;
      seen.deep = is_png_of_16_bits(content);
    }
    seen.shape = image.sizes().vec();
    seen.type = image.scalar_type();
    seen.grey = image.dim() == 2 || (image.dim() == 3 && looks_grey(image));
    if (!seen.encoded && image.numel() > 0) {
      seen.least = image.min().item<double>();
      seen.most = image.max().item<double>();
      require_finite_image(seen, source.describe(split, index));
    }
  } catch (const Error& error) {
    if (error.code() != Exit::data) throw;
    seen.problem = fmt::format("{}: {}", source.describe(split, index), error.message());
  }
  seen.tried = true;
  return seen;
}

std::vector<OneImage> look_at_all(const Source& source, size_t split, int64_t count) {
  std::vector<OneImage> seen(count);
  std::atomic<int64_t> next = 0, bytes = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      // The threads take the images in order, so the last ones are omitted when the byte limit is
      // reached.
      for (int64_t i; (i = next++) < count && bytes < kMostBytes && !failed;) {
        const int64_t index = shuffle(kSampleSeed, 0, i, source.size(split));
        seen[i] = look_at(source, split, index, bytes);
      }
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    const int cores = std::min(usable_cores(), kMostThreads);
    for (int i = 1; i < cores; ++i) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return seen;
}

int64_t median(std::vector<int64_t> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool has_less_area(const ImageSides& a, const ImageSides& b) {
  return a.height * a.width < b.height * b.width;
}

// Fills in the sizes.
void measure(const std::vector<ImageSides>& sides, SampledImages& all) {
  std::vector<int64_t> heights, widths;
  for (const ImageSides& one : sides) {
    heights.push_back(one.height);
    widths.push_back(one.width);
    all.equal &= one == sides[0];
  }
  all.smallest = *std::min_element(sides.begin(), sides.end(), has_less_area);
  all.largest = *std::max_element(sides.begin(), sides.end(), has_less_area);
  all.typical = {median(heights), median(widths)};
}

}  // namespace

std::string size_text(const ImageSides& size) {
  return fmt::format("{}x{}", size.width, size.height);
}

SampledImages sample_images(const Source& source, size_t split, int64_t limit) {
  const auto seen = look_at_all(source, split, std::min(limit, source.size(split)));
  SampledImages all;
  std::vector<ImageSides> sides;
  bool grey = true, first = true;
  for (const OneImage& one : seen) {
    all.tried += one.tried;
    if (!one.problem.empty()) all.broken.push_back(one.problem);
    if (!one.tried || !one.problem.empty()) continue;
    const size_t rank = one.shape.size();
    if (rank < 2 || rank > 3) {
      throw Error(Exit::usage, "",
                  fmt::format("'image' has the shape {}, expected (height, width, channels)",
                              shape_text(one.shape)));
    }
    sides.push_back({one.shape[0], one.shape[1]});
    grey &= one.grey;
    all.encoded = one.encoded;
    all.turned += one.turned;
    all.deep += one.deep;
    all.type = one.type;
    all.rank2 = rank == 2;
    all.channels = one.encoded ? 3 : rank == 2 ? 1 : one.shape[2];
    all.least = first ? one.least : std::min(all.least, one.least);
    all.most = first ? one.most : std::max(all.most, one.most);
    first = false;
  }
  if (sides.empty()) {
    throw Error(Exit::usage, "",
                all.broken.empty() ? "has no images"
                                   : fmt::format("none of {} images can be decoded: {}", all.tried,
                                                 all.broken[0]));
  }
  if (!all.encoded && all.least == all.most) {
    throw Error(Exit::usage, "",
                fmt::format("every value of the {} sampled images is {}", sides.size(), all.least));
  }
  if (grey && all.encoded) all.channels = 1;
  measure(sides, all);
  return all;
}

std::string decoding_problem(const Source& source, size_t split, int64_t index) {
  std::atomic<int64_t> bytes = 0;
  return look_at(source, split, index, bytes).problem;
}

void add_validation(SampledImages& images, const SampledImages& validation) {
  images.equal &= validation.equal && validation.typical == images.typical;
  images.smallest = std::min(images.smallest, validation.smallest, has_less_area);
  images.largest = std::max(images.largest, validation.largest, has_less_area);
  images.tried += validation.tried;
  images.turned += validation.turned;
  images.deep += validation.deep;
  images.broken.insert(images.broken.end(), validation.broken.begin(), validation.broken.end());
}

}  // namespace bv
