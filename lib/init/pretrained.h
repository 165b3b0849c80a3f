// The pretrained model of `bvtrain init --from WEIGHTS`: what a config must say to load it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/ckpt/tensors.h"
#include "lib/init/sampled_images.h"
#include "lib/init/value_scaling.h"
#include "lib/train/weights/stored_arguments.h"

namespace bv {

struct PretrainedModel {
  std::string path;       // for model_init
  bool inferred = false;  // from the parameters, because nothing describes the model
  uint64_t bytes = 0;     // of the arrays at `path`
  NamedTensors weights;   // if inferred: what read_weights() has returned for `path`
  std::string model_name;
  std::string model;  // its arguments, a flow mapping of YAML without references: "{width: 64}"
  int64_t patch = 1;  // sides of images must be multiples of it
  int64_t channels = 3;
  ImageSides image;                // of its training; 0 if not known
  bool other_sizes = true;         // it also works on images of other sizes
  ValueScaling scaling;            // of the values in its training
  bool pil = false;                // it was trained on JPEGs that PIL decoded
  std::vector<std::string> fresh;  // patterns of parameters that start fresh: the head
  // How it was evaluated (StoredPreprocessing).
  double crop_share = 0;
  std::string resize_method;
  // Sentences about what is assumed, because nothing at `path` states it; "" if it is stated. They
  // may have several lines.
  std::string scaling_note, heads_note;
};

// Finds out what `path` holds. It may be anything that model_init takes. A workdir, a checkpoint or
// a file of `bvtrain export` describes its model. For weights of a vit, mlp_mixer or bit_paper by
// big_vision, timm or Hugging Face, the model is inferred from the names and shapes of the
// parameters, and from the files that timm and Hugging Face write next to them. Throws
// Error(Exit::usage) at the path.
PretrainedModel inspect_weights(const std::string& path);

// The same for parameters that were read (read_weights()), for inspect_weights() and tests.
// `stored`: what stored_arguments() returns.
PretrainedModel model_of_parameters(const NamedTensors& tree, const std::string& path,
                                    const StoredArguments& stored = {});

// Checks that the model of the config exists and can load the weights, for images of these sides.
// If it cannot, throws the Error(Exit::usage) that a run would throw: for example, the file may
// have parameters that the model lacks.
void require_loadable(const PretrainedModel& from, const ImageSides& image);

}  // namespace bv
