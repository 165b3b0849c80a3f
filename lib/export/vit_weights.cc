#include "lib/export/vit_weights.h"

#include "lib/ckpt/layouts/layouts.h"
#include "lib/export/weights_writer.h"
#include "lib/model/transformer/position_embedding.h"
#include "lib/model/transformer/resample.h"

namespace bv {
namespace {

void read_sizes(VitWeights& vit) {
  const TrainedModel& trained = vit.trained;
  const at::Tensor& patch = trained_parameter(trained, "embedding/kernel");
  expect_dimensions("embedding/kernel", patch, 4, trained.origin);
  vit.patch_height = patch.size(0);
  vit.patch_width = patch.size(1);
  vit.image.channels = patch.size(2);
  vit.width = patch.size(3);
  while (vit.has(fmt::format("Transformer/encoderblock_{}/LayerNorm_0/scale", vit.depth)))
    ++vit.depth;
  const auto of_block = [&](const char* name) {
    return trained_parameter(trained, fmt::format("Transformer/encoderblock_0/{}", name)).size(0);
  };
  vit.heads = of_block("MultiHeadDotProductAttention_0/query/bias");
  vit.mlp = of_block("MlpBlock_0/Dense_0/bias");
  if (vit.has("head/bias")) vit.classes = trained.params.at("head/bias").size(0);
  if (vit.has("pre_logits/bias")) vit.rep_size = trained.params.at("pre_logits/bias").size(0);
}

void read_grid(VitWeights& vit) {
  const auto learned = vit.trained.params.find("pos_embedding");
  const int64_t tokens = learned == vit.trained.params.end() ? 0 : learned->second.size(1);
  vit.image.height = vit.trained.image.height;
  vit.image.width = vit.trained.image.width;
  if (vit.image.height == 0) {
    const int64_t side = square_grid(tokens).rows;
    if (side == 0) {
      throw Error(Exit::usage, vit.trained.origin,
                  "the size of the model's images is not known; give --image-size "
                  "HEIGHT,WIDTH");
    }
    vit.image.height = side * vit.patch_height;
    vit.image.width = side * vit.patch_width;
  }
  vit.grid_height = vit.image.height / vit.patch_height;
  vit.grid_width = vit.image.width / vit.patch_width;
  const int64_t patches = vit.grid_height * vit.grid_width;
  if (patches < 1 || (tokens > 0 && patches != tokens)) {
    throw Error(
        Exit::usage, vit.trained.origin,
        fmt::format("images of {}x{} have {} patches of {}x{}, but the model {}", vit.image.height,
                    vit.image.width, patches, vit.patch_height, vit.patch_width,
                    tokens > 0 ? fmt::format("{} positions", tokens) : "needs one"));
  }
  vit.trained.image = vit.image;
}

}  // namespace

VitWeights vit_weights(const Config& model, const TrainedModel& trained) {
  VitWeights vit;
  vit.trained = trained;
  vit.trained.params = unstack_blocks(trained.params, trained.origin);
  vit.pool = model.word("pool_type", "gap", {"gap", "map", "tok", "0", "none"});
  read_sizes(vit);
  read_grid(vit);
  const auto learned = vit.trained.params.find("pos_embedding");
  vit.positions = learned != vit.trained.params.end()
                      ? learned->second
                      : sincos2d(vit.grid_height, vit.grid_width, vit.width);
  return vit;
}

VitWeights flexi_vit_weights(const Config& model, const TrainedModel& trained) {
  const auto seqhw = model.maybe<int64_t>("seqhw").value_or(0);
  const auto stored = model.get<std::vector<int64_t>>("posemb_size", {7, 7});
  VitWeights vit;
  vit.trained = trained;
  vit.pool = model.word("pool_type", "gap", {"gap", "map", "tok"});
  at::Tensor& kernel = vit.trained.params["embedding/kernel"];
  kernel = trained_parameter(trained, "embedding/kernel");
  expect_dimensions("embedding/kernel", kernel, 4, trained.origin);
  const ImageSize image = known_image(trained, kernel);
  const int64_t height = seqhw > 0 ? image.height / seqhw : kernel.size(0);
  const int64_t width = seqhw > 0 ? image.width / seqhw : kernel.size(1);
  if (height < 1 || width < 1 || image.height < height || image.width < width) {
    throw Error(Exit::usage, trained.origin,
                fmt::format("images of {}x{} can't be cut into patches of {}x{}", image.height,
                            image.width, height, width));
  }
  if (height != kernel.size(0) || width != kernel.size(1)) {
    kernel = resize_grid(kernel, kernel_resize_matrix(kernel.size(0), height),
                         kernel_resize_matrix(kernel.size(1), width));
  }
  const int64_t rows = image.height / height, columns = image.width / width;
  const auto learned = vit.trained.params.find("pos_embedding");
  at::Tensor positions = learned != vit.trained.params.end()
                             ? learned->second
                             : sincos2d(stored.at(0), stored.at(1), kernel.size(3));
  if (rows != stored.at(0) || columns != stored.at(1)) {
    positions = resize_grid(positions.reshape({stored[0], stored[1], kernel.size(3)}),
                            linear_resize_matrix(stored[0], rows, /*antialias=*/true),
                            linear_resize_matrix(stored[1], columns, /*antialias=*/true))
                    .reshape({1, rows * columns, kernel.size(3)});
  }
  vit.trained.params["pos_embedding"] = vit.positions = positions;
  read_sizes(vit);
  read_grid(vit);
  return vit;
}

}  // namespace bv
