// A trained vit or flexi_vit, with what its parameters and its config say about its shape.
#pragma once

#include <cstdint>
#include <string>

#include "lib/export/export.h"

namespace bv {

struct VitWeights {
  Trained trained;       // params: one subtree a block, also where the model stacks them
  std::string pool;      // gap map tok 0 none
  at::Tensor positions;  // (1, N, D), also where the model computes them
  int64_t width = 0, depth = 0, heads = 0, mlp = 0;
  int64_t patch_height = 0, patch_width = 0, grid_height = 0, grid_width = 0;
  ImageSize image;
  int64_t classes = 0;   // 0: no head
  int64_t rep_size = 0;  // 0: no layer before the head

  bool has(const std::string& name) const { return trained.params.count(name) > 0; }
};

// `model` is the config's section. Throws Error(Exit::usage) where the image's size is not known
// and can't be told from a square position embedding.
VitWeights vit_weights(const Config& model, const Trained& trained);
// Patch kernel and position embedding resized to what the images and `seqhw` ask for, as forward()
// does: what is left is a vit.
VitWeights flexi_vit_weights(const Config& model, const Trained& trained);

void write_vit_timm(const VitWeights& vit, const std::string& output);
void write_vit_onnx(const VitWeights& vit, const std::string& output);

}  // namespace bv
