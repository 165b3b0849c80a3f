// The interface of models: images in, logits out. Each architecture is one file in models/, named
// after its `model_name`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/layouts/token_grid.h"
#include "lib/config/registry.h"
#include "lib/model/meta_device.h"
#include "lib/model/module.h"
#include "lib/model/pass.h"

namespace bv {

// What the constructor of a model gets besides its config.
struct ModelEnv {
  int64_t num_classes = 0;                      // 0: the model has no head and returns pre_logits
  int64_t height = 0, width = 0, channels = 0;  // of the images after preprocessing
};

class Model : public Module {
 public:
  using Registry = bv::Registry<Model, ModelEnv>;
  static constexpr const char* kKind = "model";

  // Takes images (n, height, width, channels) float32 and returns logits (n, num_classes) float32.
  virtual at::Tensor forward(const at::Tensor& image, Pass& pass) = 0;

  // How many training images fit() is to get; 0 for a model without fit().
  virtual int64_t fit_images() const { return 0; }
  // Sets buffers of the model from training images after input.pp. `next` returns one image at a
  // time, (height, width, channels) float32, and an undefined tensor after the last one. Called
  // once before a training, on the CPU and on every rank with the same images; a checkpoint
  // replaces the values. Throws Error(Exit::usage).
  virtual void fit(const std::function<at::Tensor()>& next) {}

  // Returns whether the model, built for images of ModelEnv's size, also takes images of this size.
  // False if its weights or position embeddings are tied to positions that images of this size do
  // not have, or if nothing is left of such images: forward() may compute nonsense from them
  // without an error.
  virtual bool takes_size(int64_t height, int64_t width) const { return true; }
  // Returns the grid of the position embedding, learned or fixed; {} for a model without one. A
  // learned one is the parameter "pos_embedding". Weights with another grid are resampled to it.
  virtual TokenGrid position_grid() const { return {}; }
  // Returns the units of the model: parts that forward() runs one after the other, each between
  // pass.enter(i, ...) and pass.leave(i, ...). A unit is named by the prefix of its parameters'
  // names ("MixerBlock_0/"). Units share no parameters with each other or with the rest of the
  // model. Sharded training gathers and frees the parameters of one unit at a time.
  virtual std::vector<std::string> units() const { return {}; }
  // Returns why a recorded training step of this model cannot be repeated: the operators that
  // forward() calls, or their shapes or numbers, differ from step to step. Returns "" if it can be
  // repeated. Dropout is no obstacle, because its kernels read the step number.
  virtual std::string varies() const { return ""; }
  // From now on every training step of a model that varies() has the most work that the model can
  // draw with any seed. For benchmarks.
  virtual void fix_largest_step() {}
  // Set while a run shards the model's parameters; null while all of them are in memory.
  UnitHooks* hooks = nullptr;
};

// Return all parameters, or all buffers, in the order of registration.
Module::Named named_parameters(const Model& model);
Module::Named named_buffers(const Model& model);

// Returns whether weights that were trained on images of this size fit `model`. They fit if no
// weight is tied to positions in the image, or if both sizes have the same positions. Fixed
// position embeddings always fit, because `model` computes its own. Learned ones fit if
// `resampled`, because weights from a file are resampled.
bool weights_fit_places(const Model& model, int64_t height, int64_t width, bool resampled);

// Moves the parameters and buffers to a device.
void move_to(c10::Device device, Model& model);

// Sets every parameter to random values that depend only on the seed and the parameter's name, not
// on the device, the memory layout or the number of ranks. If `head_bias` (the config's
// `init_head_bias`) is given, it fills "head/bias"; throws Error(Exit::usage) if the model has no
// such parameter.
void init_parameters(Model& model, uint64_t seed, std::optional<double> head_bias);
// The same for one parameter at a time: returns a function that sets the i-th parameter. `model`
// must outlive it.
std::function<void(size_t)> parameter_init(const Model& model, uint64_t seed,
                                           std::optional<double> head_bias);

}  // namespace bv
