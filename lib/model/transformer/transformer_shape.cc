#include "lib/model/transformer/transformer_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

namespace bv {
namespace {

struct VariantSize {
  const char* name;
  int64_t width, depth, mlp_dim, num_heads;
};
constexpr VariantSize kSizes[] = {
    {"mu", 32, 1, 128, 2},          {"Ti", 192, 12, 768, 3},   {"S", 384, 12, 1536, 6},
    {"M", 512, 12, 2048, 8},        {"B", 768, 12, 3072, 12},  {"L", 1024, 24, 4096, 16},
    {"So400m", 1152, 27, 4304, 16}, {"H", 1280, 32, 5120, 16}, {"g", 1408, 40, 6144, 16},
    {"g-opt", 1536, 40, 6144, 16},  {"G", 1664, 48, 8192, 16}, {"G-opt", 1536, 48, 8192, 16},
    {"e", 1792, 56, 15360, 16},
};

// Reads `variant` only.
TransformerShape shape_of_variant(const Config& config, int64_t patch) {
  TransformerShape shape;
  shape.patch_height = shape.patch_width = patch;
  std::vector<std::string> known;
  for (const VariantSize& size : kSizes) known.emplace_back(size.name);
  const auto variant = read_variant(config, known, /*needs_patch=*/false);
  if (!variant) return shape;
  for (const VariantSize& size : kSizes) {
    if (variant->size != size.name) continue;
    shape.width = size.width;
    shape.depth = size.depth;
    shape.mlp_dim = size.mlp_dim;
    shape.num_heads = size.num_heads;
  }
  if (variant->patch > 0) shape.patch_height = shape.patch_width = variant->patch;
  return shape;
}

}  // namespace

TransformerShape read_transformer_shape(const Config& config, int64_t patch) {
  TransformerShape shape = shape_of_variant(config, patch);
  const auto positive = [&](const char* key, int64_t& value) {
    value = config.get<int64_t>(key, value);
    if (value < 1) config.fail(key, fmt::format("must be positive, got {}", value));
  };
  positive("width", shape.width);
  positive("depth", shape.depth);
  // An untrusted file may give a width so large that 4 * width would overflow.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;
  if (shape.mlp_dim == 0) shape.mlp_dim = 4 * std::min(shape.width, kMost);
  positive("mlp_dim", shape.mlp_dim);
  positive("num_heads", shape.num_heads);
  if (shape.width % shape.num_heads != 0) {
    config.fail("num_heads",
                fmt::format("{} heads do not divide a width of {}", shape.num_heads, shape.width));
  }
  const auto sides =
      config.get<std::vector<int64_t>>("patch_size", {shape.patch_height, shape.patch_width});
  if (sides.size() != 2 || sides[0] < 1 || sides[1] < 1) {
    config.fail("patch_size", "must be two positive numbers [rows, columns]");
  }
  shape.patch_height = sides[0];
  shape.patch_width = sides[1];
  warn_of_overridden_variant(config, {"width", "depth", "mlp_dim", "num_heads", "patch_size"});
  return shape;
}

std::optional<int64_t> usual_heads(int64_t width) {
  for (const VariantSize& size : kSizes) {
    if (size.width == width) return size.num_heads;
  }
  constexpr int64_t kUsualFeaturesOfHead = 64;
  if (width % kUsualFeaturesOfHead != 0) return std::nullopt;
  return width / kUsualFeaturesOfHead;
}

std::vector<NamedVariant> transformer_variants() {
  std::vector<NamedVariant> all;
  for (const char* name : {"mu/16", "Ti/16", "S/32", "S/16", "M/16", "B/32", "B/16", "L/16",
                           "So400m/14", "H/14", "g/14", "g-opt/14", "G/14", "G-opt/14", "e/14"}) {
    all.push_back({name, fmt::format("{{variant: {}}}", name)});
  }
  return all;
}

}  // namespace bv
