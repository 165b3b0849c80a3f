// All layers that models are made of.
//
// A layer is a small struct that holds the tensors of its parameters. Its add() function registers
// them with the model, with names that begin with `name`/. So a model is one Module with a flat
// list of parameters.
//
// Layers can be stacked (vit's `scan`): add(..., layers) with layers > 0 registers parameters with
// a leading axis of that size, and unstack() returns the single layers.
//
// Names and shapes of parameters are big_vision's. Convolutional activations are (n, c, h, w)
// tensors in channels_last memory. Matmuls and convolutions compute in pass.precision and return
// that type; norms compute their statistics in float32.
#pragma once

#include "lib/model/init.h"
#include "lib/model/layers/attention.h"
#include "lib/model/layers/batch_norm.h"
#include "lib/model/layers/compute.h"
#include "lib/model/layers/conv2d.h"
#include "lib/model/layers/dense.h"
#include "lib/model/layers/group_norm.h"
#include "lib/model/layers/layer_norm.h"
#include "lib/model/layers/mlp.h"
#include "lib/model/layers/residual.h"
#include "lib/model/layers/stacked.h"
#include "lib/model/model.h"
