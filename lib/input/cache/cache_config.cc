#include "lib/input/cache/cache_config.h"

#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/input/path.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

const KeyTable input_keys(
    "input", {},
    {{"cache", "map", "none",
      "Caches decoded images, so that only the first pass decodes image files. It helps if the "
      "loader is slower than the model and the images fit. Every pass still reads the image files "
      "and compares their hashes with the cache.",
      "{in: memory, gib: 8}", "-"}});

const KeyTable cache_config_keys(
    "input.cache",
    {"Caches decoded images for later passes. It needs a `pp` that begins with `decode` or "
     "`decode_jpeg_and_inception_crop`. The results are bit-identical to those without it, unless "
     "you give a `short_side`. Images that do not fit are decoded in every pass.",
     "in: memory\ngib: 8"},
    {{"in", "'memory' | string", "required",
      "Where the images are cached. `memory` is shared by all processes of a host (a file in "
      "/dev/shm) and is freed when they end. A folder keeps them for later runs with the same data "
      "and the same decoding; use a fast disk. It is created if its parent folder exists, and its "
      "name must contain a `/`. Delete the folder when you no longer need it.",
      "/fast/bvtrain-cache"},
     {"gib", "float 0<..1048576", "required",
      "Maximum size of the cache in GiB, for all processes of a host together. This much must be "
      "free when the run begins. An image takes height * width * channels bytes: 500x400 pixels in "
      "colour are 0.6 MB, so 1000 of them take 0.56 GiB. If the cache fills up, the log shows what "
      "fraction of the images fits.",
      "8"},
     {"short_side", "int 1..16384", "none",
      "Images whose shorter side is longer than this are resized to it before caching, as by the "
      "op `resize_small(short_side)`, which averages areas. Smaller images stay as they are. This "
      "saves memory and time, but changes the results: crops are taken from the smaller image. "
      "Choose it larger than the output size of `pp`, for example 320 for images of 224.",
      "320"}});

constexpr double kBytesPerGib = 1 << 30;
constexpr double kMostGib = 1 << 20;

}  // namespace

std::optional<ImageCacheOptions> read_image_cache(const Config& input) {
  if (!input.has("cache")) return std::nullopt;
  const Config cache = input.section("cache");
  if (!input.is_map("cache")) return std::nullopt;  // section() has recorded it
  ImageCacheOptions options;
  options.folder_place = cache.place("in");
  options.bytes_place = cache.place("gib");
  attempt(cache, [&] {
    options.folder = require_path(cache, "in");
    if (options.folder == "memory") {
      options.folder.clear();
    } else if (options.folder.find('/') == std::string::npos) {
      cache.problem("in",
                    fmt::format("must be memory or a folder, got '{}'; write ./{} for a folder "
                                "in this one",
                                options.folder, options.folder));
    }
  });
  attempt(cache, [&] {
    const auto gib = cache.get<double>("gib");
    if (!(gib > 0 && gib <= kMostGib))
      cache.fail("gib", fmt::format("must be above 0 and at most 1048576, got {}", gib));
    options.bytes = static_cast<int64_t>(gib * kBytesPerGib);
  });
  const auto short_side = cache.maybe<int64_t>("short_side");
  if (!short_side) return options;
  if (*short_side >= 1 && *short_side <= limits::kSquareSide)
    options.short_side = *short_side;
  else
    cache.problem("short_side", fmt::format("must be between 1 and {}, got {}", limits::kSquareSide,
                                            *short_side));
  return options;
}

void check_image_cache(const Config& input, const std::vector<const Pipeline*>& pps) {
  const bool any = std::any_of(pps.begin(), pps.end(),
                               [](const Pipeline* pp) { return pp->decodes().has_value(); });
  for (const Pipeline* pp : pps) {
    if (pp->decodes() || (any && !pp->decodes_later())) continue;
    input.fail("cache", pp->decodes_later()
                            ? fmt::format("keeps decoded images, but the pp '{}' decodes them "
                                          "after its first op: move the decoding op to the front",
                                          pp->text())
                            : "keeps decoded images, but no pp decodes any: leave it out");
  }
}

}  // namespace bv
