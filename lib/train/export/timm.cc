// timm.models.vision_transformer.VisionTransformer: the file holds its parameters, and under the
// metadata's "timm" its arguments as JSON, so that
//     VisionTransformer(**arguments).load_state_dict(load_file(F))
// computes what the vit does. scripts/golden/check_export.py proves it.
#include <nlohmann/json.hpp>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/safetensors.h"
#include "lib/train/export/vit_weights.h"
#include "lib/util/file.h"

namespace bv {
namespace {

nlohmann::json arguments_of(const VitWeights& vit) {
  const std::map<std::string, std::string> kPools = {
      {"gap", "avg"}, {"map", "map"}, {"tok", "token"}, {"0", "token"}, {"none", ""}};
  // timm truncates width * mlp_ratio; half a feature more keeps rounding from losing one.
  const double ratio = vit.mlp % vit.width == 0
                           ? static_cast<double>(vit.mlp / vit.width)
                           : (static_cast<double>(vit.mlp) + 0.5) / static_cast<double>(vit.width);
  return {// timm insists on whole patches.
          {"img_size", {vit.grid_height * vit.patch_height, vit.grid_width * vit.patch_width}},
          {"patch_size", {vit.patch_height, vit.patch_width}},
          {"in_chans", vit.channels},
          {"num_classes", vit.classes},
          {"global_pool", kPools.at(vit.pool)},
          {"embed_dim", vit.width},
          {"depth", vit.depth},
          {"num_heads", vit.heads},
          {"mlp_ratio", ratio},
          {"class_token", vit.pool == "tok"},
          {"fc_norm", false},  // the norm comes before the pooling
          {"act_layer", "gelu_tanh"}};
}

}  // namespace

void export_timm(const VitWeights& vit, const std::string& output) {
  if (vit.rep_size > 0) {
    throw Error(Exit::usage, "--format timm",
                "the model has rep_size, a layer that timm's VisionTransformer has not; npz, "
                "safetensors and onnx hold it");
  }
  NamedTensors params = vit.params;
  params["pos_embedding"] = vit.positions;
  const std::string arguments = arguments_of(vit).dump();
  const NamedTensors theirs = to_timm(params);
  write_through(output, [&](FileWriter& out) {
    write_safetensors(out, theirs, {{"format", "pt"}, {"timm", arguments}});
  });
}

}  // namespace bv
