#include "lib/model/resnet.h"

#include <ATen/ops/max_pool2d.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace bv {
namespace {

constexpr size_t kMaxStages = 12;
constexpr double kMaxWidth = 64;

const std::map<int64_t, std::vector<int64_t>>& known_depths() {
  static const std::map<int64_t, std::vector<int64_t>> known = {{26, {2, 2, 2, 2}},
                                                                {50, {3, 4, 6, 3}},
                                                                {101, {3, 4, 23, 3}},
                                                                {152, {3, 8, 36, 3}},
                                                                {200, {3, 24, 36, 3}}};
  return known;
}

std::vector<int64_t> read_depth(const Config& config) {
  if (config.is_list("depth")) {
    const auto blocks = config.get<std::vector<int64_t>>("depth");
    if (blocks.empty() || *std::min_element(blocks.begin(), blocks.end()) < 1) {
      config.fail("depth", "must be a list of positive numbers, the units of each stage");
    }
    if (blocks.size() > kMaxStages) {  // channels double with each stage
      config.fail("depth", fmt::format("{} stages, at most {}", blocks.size(), kMaxStages));
    }
    return blocks;
  }
  const auto depth = config.get<int64_t>("depth", 50);
  const auto found = known_depths().find(depth);
  if (found == known_depths().end()) {
    std::vector<int64_t> known;
    for (const auto& [layers, blocks] : known_depths()) known.push_back(layers);
    config.fail("depth", fmt::format("expected one of {} or a list of units per stage, got {}",
                                     fmt::join(known, ", "), depth));
  }
  return found->second;
}

}  // namespace

at::Tensor max_pool_same(const at::Tensor& x) {
  // An odd side needs one pixel of padding at both ends. An even side needs one only at its end:
  // there ceil_mode lets the last window extend beyond the edge.
  return at::max_pool2d(x, {3, 3}, {2, 2}, {x.size(2) % 2, x.size(3) % 2}, {1, 1},
                        /*ceil_mode=*/true);
}

ResnetShape read_resnet_shape(const Config& config) {
  const auto width = config.get<double>("width", 1.0);
  ResnetShape shape;
  shape.blocks = read_depth(config);
  if (!(width > 0 && width <= kMaxWidth)) {
    config.fail("width", fmt::format("must be above 0, at most {}, got {}", kMaxWidth, width));
  }
  shape.width = static_cast<int64_t>(64 * width);
  if (shape.width == 0 || shape.width % kResnetGroups != 0) {
    config.fail("width",
                fmt::format("{} channels (64 * width) are not divisible by the norms' {} groups",
                            shape.width, kResnetGroups));
  }
  return shape;
}

std::vector<NamedVariant> resnet_variants() {
  std::vector<NamedVariant> all;
  constexpr std::pair<int, int> kPublished[] = {{26, 1},  {50, 1},  {50, 3},  {101, 1}, {101, 3},
                                                {152, 1}, {152, 2}, {152, 4}, {200, 1}};
  for (const auto& [depth, width] : kPublished) {
    all.push_back({fmt::format("R{}x{}", depth, width),
                   fmt::format("{{depth: {}, width: {}}}", depth, width)});
  }
  return all;
}

at::Tensor channels_last_view(const at::Tensor& x) { return x.permute({0, 2, 3, 1}); }

at::Tensor resnet_head(const at::Tensor& x, const Dense& head, Pass& pass) {
  pass.keep("pre_logits_2d", channels_last_view(x));
  // As a view, so that the gradient is channels_last, too.
  const at::Tensor y = channels_last_view(x).mean({1, 2}).to(at::kFloat);
  pass.keep("pre_logits", y);
  if (!head.kernel.defined()) return y;
  if (pass.wants("logits_2d")) {
    Pass aside = pass;
    aside.macs = nullptr;
    pass.keep("logits_2d", head.head(channels_last_view(x), aside));
  }
  const at::Tensor logits = head.head(y, pass);
  pass.keep("logits", logits);
  return logits;
}

}  // namespace bv
