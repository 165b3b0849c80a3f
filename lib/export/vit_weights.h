// A trained vit or flexi_vit, prepared for export: its weights and its dimensions.
#pragma once

#include <cstdint>
#include <string>

#include "lib/export/export.h"

namespace bv {

struct VitWeights {
  TrainedModel trained;  // params: one subtree per block, even if the model stacks its blocks
  std::string pool;      // gap, map, tok, 0 or none
  at::Tensor positions;  // (1, N, D), even if the model computes them (sincos2d)
  int64_t width = 0, depth = 0, heads = 0, mlp = 0;
  int64_t patch_height = 0, patch_width = 0, grid_height = 0, grid_width = 0;
  ImageSize image;
  int64_t classes = 0;   // 0: no head
  int64_t rep_size = 0;  // 0: no pre_logits layer before the head

  bool has(const std::string& name) const { return trained.params.count(name) > 0; }
};

// Prepares a vit. `model` is the section of the config. Throws Error(Exit::usage) if the image size
// is unknown and does not follow from a square position embedding.
VitWeights vit_weights(const Config& model, const TrainedModel& trained);
// Prepares a flexi_vit as a plain vit for one image size: resizes patch kernel and position
// embedding as forward() of models/flexi_vit.cc does for the config's `seqhw`.
VitWeights flexi_vit_weights(const Config& model, const TrainedModel& trained);

// Write the model; used by the writers in timm/ and onnx/. Throw as WeightsWriter::write().
void write_vit_timm(const VitWeights& vit, const std::string& output);
void write_vit_onnx(const VitWeights& vit, const std::string& output);

}  // namespace bv
