// The recipe that `bvtrain init` chooses for a data set: model, preprocessing, optimizer, length.
#pragma once

#include <cstdint>
#include <string>

#include "lib/init/data_findings.h"
#include "lib/init/pretrained.h"

namespace bv {

struct StarterRecipe {
  std::string about;  // in words: "a small CNN on grey images of 28x28"
  std::string model_name;
  std::string model;  // a flow mapping of YAML
  ImageSides image;   // what the model gets
  // Why `image` is not the size of a pretrained model's training, in lines; "" if it is, or if that
  // is not known.
  std::string size_note;
  // Ops, without those that make labels. The hint is a comment on the augmentation.
  std::string train_pp, eval_pp, pp_hint;
  int64_t batch_size = 0, epochs = 0;
  std::string optimizer;  // lines of YAML: optax_name, optax, lr, wd, schedule, grad_clip_norm
  double label_smoothing = 0;
  double ema = 0;  // decay of averaged weights; 0: none

  // Returns the number of training steps, as the key total_epochs gives it.
  int64_t total_steps(int64_t examples) const;
};

// Chooses by the size and number of images, by colour, and by the number of examples. Small grey
// images get the recipe of configs/mnist_cnn.yaml or fashion_mnist_small.yaml. Large images get the
// recipe of README.md. For the task regress, no op moves the content of an image. `pretrained` may
// be null.
// Throws Error(Exit::usage) if the pretrained model does not accept the images.
StarterRecipe choose_recipe(const DataFindings& found, const PretrainedModel* pretrained);

}  // namespace bv
