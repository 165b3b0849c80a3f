#include "lib/train/export/vit_weights.h"

#include <cmath>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/model/sincos.h"

namespace bv {
namespace {

constexpr const char* kBlock0 = "Transformer/encoderblock_0/";

const at::Tensor& param(const VitWeights& vit, const std::string& name, const Trained& trained) {
  const auto found = vit.params.find(name);
  if (found == vit.params.end())
    throw Error(Exit::usage, trained.origin, "the vit has no parameter " + name);
  return found->second;
}

void read_sizes(VitWeights& vit, const Trained& trained) {
  const at::Tensor& patch = param(vit, "embedding/kernel", trained);
  expect_dimensions("embedding/kernel", patch, 4, trained.origin);
  vit.patch_height = patch.size(0);
  vit.patch_width = patch.size(1);
  vit.channels = patch.size(2);
  vit.width = patch.size(3);
  while (vit.has(fmt::format("Transformer/encoderblock_{}/LayerNorm_0/scale", vit.depth)))
    ++vit.depth;
  const std::string attention = std::string(kBlock0) + "MultiHeadDotProductAttention_0/query/bias";
  vit.heads = param(vit, attention, trained).size(0);
  vit.mlp = param(vit, std::string(kBlock0) + "MlpBlock_0/Dense_0/bias", trained).size(0);
  if (vit.has("head/bias")) vit.classes = vit.params.at("head/bias").size(0);
  if (vit.has("pre_logits/bias")) vit.rep_size = vit.params.at("pre_logits/bias").size(0);
}

void read_grid(VitWeights& vit, const Trained& trained) {
  const auto learned = vit.params.find("pos_embedding");
  const int64_t tokens = learned == vit.params.end() ? 0 : learned->second.size(1);
  vit.image_height = trained.image.height;
  vit.image_width = trained.image.width;
  if (vit.image_height == 0) {
    const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(tokens))));
    if (tokens == 0 || side * side != tokens) {
      throw Error(Exit::usage, trained.origin,
                  "the size of the model's images is not known; give it: --image-size "
                  "HEIGHT,WIDTH");
    }
    vit.image_height = side * vit.patch_height;
    vit.image_width = side * vit.patch_width;
  }
  vit.grid_height = vit.image_height / vit.patch_height;
  vit.grid_width = vit.image_width / vit.patch_width;
  const int64_t patches = vit.grid_height * vit.grid_width;
  if (patches < 1 || (tokens > 0 && patches != tokens)) {
    throw Error(
        Exit::usage, trained.origin,
        fmt::format("images of {}x{} have {} patches of {}x{}, but the model {}", vit.image_height,
                    vit.image_width, patches, vit.patch_height, vit.patch_width,
                    tokens > 0 ? fmt::format("{} positions", tokens) : "needs one"));
  }
}

}  // namespace

VitWeights vit_weights(const Trained& trained, const std::string& format) {
  const auto name = trained.config.get<std::string>("model_name");
  if (name != "vit") {
    throw Error(Exit::usage, "--format " + format,
                fmt::format("model '{}' can't be written as {}; only vit can (npz and safetensors "
                            "hold every model)",
                            name, format));
  }
  VitWeights vit;
  vit.params = unstack_blocks(trained.params, trained.origin);
  const Config keys = trained.config.section("model");
  vit.pool = keys.word("pool_type", "gap", {"gap", "map", "tok", "0", "none"});
  throw_problems(trained.config);
  read_sizes(vit, trained);
  read_grid(vit, trained);
  const auto learned = vit.params.find("pos_embedding");
  vit.positions = learned != vit.params.end()
                      ? learned->second
                      : sincos2d(vit.grid_height, vit.grid_width, vit.width);
  return vit;
}

}  // namespace bv
