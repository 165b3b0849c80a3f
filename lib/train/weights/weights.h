// Loads a model's parameters and buffers from a weights file: the keys model_init and model_load,
// and `resume` with a file that is not a checkpoint (docs/weights.md). As in big_vision's utils.py,
// `load_params`, and models/common.py, `merge_params`.
#pragma once

#include <string>
#include <vector>

#include "lib/ckpt/tensors.h"
#include "lib/model/model.h"

namespace bv {

// The key model_load. Names that match a pattern keep their fresh values.
struct DontLoad {
  std::vector<std::string> patterns = {};
  Place place = {};
};
// Records problems with the config.
DontLoad read_dont_load(const Config& config);

// One array to copy: `from`, of the file, to `to`, a parameter or a buffer ("buffers/...") of the
// model. They have the same shape; `from` may have any floating-point type.
struct WeightCopy {
  std::string name;
  at::Tensor to, from;
};

// Reads the weights of `path` (npz, safetensors or a checkpoint, see read_weights()) and returns
// what to copy into `model`. Names and layouts are adapted by lib/ckpt/layouts. Arrays of another
// size are resampled if they are pos_embedding or if the model is a ParameterResizer; position
// embeddings with another grid are resampled too, with a warning if the file's grid is a guess.
// Fixed position embeddings (sincos2d), which timm's files have as parameters, are left out if the
// model computes its own. The number of attention heads is checked as by check_heads()
// (attention_heads.h), and the pooling of timm's vits as by check_pooling() (stored_arguments.h).
//
// `dont_load` holds regular expressions of full names, of the model or of the file. Parameters that
// match keep their values. All others must be in the file with the same shape, and the file must
// not have more. Otherwise throws Error(Exit::usage): one line that names every missing, unexpected
// and differing array. A last layer and its target scale (lib/model/target_scale.h) are loaded
// together or not at all; a scale that only the file has moves into the file's last layer. Warns of
// a pattern that matches nothing; `place` is where the patterns are in the config. Does not change
// the model.
std::vector<WeightCopy> plan_weights(const std::string& path, const Model& model,
                                     const std::vector<std::string>& dont_load,
                                     const std::string& place = "");

// The same for weights that were read: `file` is what read_weights() has returned for `path`.
std::vector<WeightCopy> plan_weights(NamedTensors file, const std::string& path, const Model& model,
                                     const std::vector<std::string>& dont_load,
                                     const std::string& place = "");

// Throws Error(Exit::usage) with the names of the arrays that have NaN or infinite values, with
// which no run can train. `path` is where they come from.
void require_finite(const std::vector<WeightCopy>& weights, const std::string& path);

// Returns the names of the classes of the model whose weights are at `path`, a file or a
// checkpoint; empty if they are not known. Throws Error(Exit::usage) if `path` cannot be read.
std::vector<std::string> class_names_of(const std::string& path);

// Replaces `num_classes: auto` in a config by the number of classes of the model whose weights are
// at `path`, a file or a checkpoint. Throws Error(Exit::usage), also if `path` does not say it.
void replace_auto_classes(const Config& config, const std::string& path);

// Returns whether a weights file for `model` has the scale of a regression's targets. Reads the
// whole file. Throws Error(Exit::usage) if it cannot be read.
bool has_target_scale(const std::string& path, const Model& model);

// Copies what plan_weights() returns. With a model on the meta device this only checks the file.
void load_weights(const std::string& path, Model& model, const std::vector<std::string>& dont_load,
                  const std::string& place = "");

}  // namespace bv
