// Runs a trained model on images from anywhere: what `bvtrain predict` does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/config/config.h"

namespace bv {

struct PredictRequest {
  std::vector<std::string> inputs;  // files and folders, see open_inputs(); unused with `eval`
  std::string eval;                 // the evaluator whose data set and pp_fn are used; or empty
  int64_t first = 0;                // number of examples, from the first one; 0: all
  // Preprocessing. Default: with `eval` that evaluator's pp_fn, otherwise the pp_fn of the first
  // evaluator in the checkpoint's config or, failing that, in the config.
  std::optional<std::string> pp;
  // "logits", "image" (after preprocessing), or the path of a named activation. Not empty.
  std::vector<std::string> outputs;
  int64_t batch_size = 64;
  bool ema = false;     // use the averaged weights of the checkpoint
  bool labels = false;  // return the labels, if they are known
};

struct Prediction {
  NamedTensors arrays;  // by output: (n, ...) float32; "image" has the type that pp gives
  std::vector<std::string> names;        // (n): files, or "row 17"
  std::vector<int64_t> labels;           // (n), or empty if unknown or not requested
  std::vector<std::string> class_names;  // empty if unknown
  bool sigmoid = false;  // the model was trained with sigmoid_xent rather than softmax_xent
};

// Loads the model from `checkpoint` or, without one, from the config's `model_init`, and runs it.
// Reads `model_name`, `model`, `num_classes`, `precision`, `loss`, `evals` and, without a
// checkpoint, `model_init` and `model_load`; ignores the other keys of a training config. If only
// "image" is requested, no model is built and the keys are not checked. Throws Error(Exit::usage);
// for an unknown output the message lists the model's activations.
Prediction predict(const Config& config, const std::optional<Restored>& checkpoint,
                   const PredictRequest& request);

}  // namespace bv
