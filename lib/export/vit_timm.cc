// Writes a vit for timm.models.vision_transformer.VisionTransformer, for timm/vit.cc and
// timm/flexi_vit.cc.
#include <nlohmann/json.hpp>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/export/timm_file.h"
#include "lib/export/vit_weights.h"
#include "lib/report/log.h"

namespace bv {
namespace {

nlohmann::json arguments_of(const VitWeights& vit) {
  const std::map<std::string, std::string> kPools = {
      {"gap", "avg"}, {"map", "map"}, {"tok", "token"}, {"none", ""}};
  return {// timm requires whole patches.
          {"img_size", {vit.grid_height * vit.patch_height, vit.grid_width * vit.patch_width}},
          {"patch_size", {vit.patch_height, vit.patch_width}},
          {"in_chans", vit.image.channels},
          {"num_classes", vit.classes},
          {"global_pool", kPools.at(vit.pool)},
          {"embed_dim", vit.width},
          {"depth", vit.depth},
          {"num_heads", vit.heads},
          {"mlp_ratio", timm_ratio(vit.mlp, vit.width)},
          {"class_token", vit.pool == "tok"},
          {"fc_norm", false},  // the norm comes before the pooling
          {"act_layer", "gelu_tanh"}};
}

}  // namespace

void write_vit_timm(const VitWeights& vit, const std::string& output) {
  if (vit.rep_size > 0) {
    throw Error(Exit::usage, "--format timm",
                "the model has rep_size, a layer that timm's VisionTransformer lacks; use npz, "
                "safetensors or onnx");
  }
  if (vit.pool == "0") {
    throw Error(Exit::usage, "--format timm",
                "the model has pool_type: '0', which takes the first patch, but timm's "
                "VisionTransformer needs a class token for that; use npz, safetensors or onnx");
  }
  const int64_t rows = vit.grid_height * vit.patch_height,
                columns = vit.grid_width * vit.patch_width;
  if (rows != vit.image.height || columns != vit.image.width) {
    log::warn(
        "timm's VisionTransformer takes only images of whole patches: cut those of {}x{} to their "
        "first {} rows and {} columns, which are all that the model uses",
        vit.image.height, vit.image.width, rows, columns);
  }
  NamedTensors params = vit.trained.params;
  params["pos_embedding"] = vit.positions;
  write_timm(output, vit.trained, to_timm(params), "VisionTransformer", arguments_of(vit));
}

}  // namespace bv
