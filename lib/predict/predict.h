// Predictions of a trained model on images from anywhere: what `bvtrain predict` does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/config/config.h"
#include "lib/input/source.h"

namespace bv {

struct PredictRequest {
  // Image files, folders (every image below them, sorted), or one npz with the array `image`
  // (n, h, w, c); its other arrays of n rows become features of the same names.
  std::vector<std::string> inputs;
  std::string eval;   // in place of inputs: the data set and pp_fn of the evaluator of this name
  int64_t first = 0;  // so many examples; 0: all
  std::optional<std::string>
      pp;  // default: the first evaluator's, of the checkpoint's config first
  std::vector<std::string> outputs;  // "logits", "image" (after pp), or a named activation's path
  int64_t batch_size = 64;
  bool ema = false;     // the averaged weights of the checkpoint
  bool labels = false;  // wanted beside the outputs, where they are known
};

struct Prediction {
  NamedTensors arrays;                   // by output, (n, ...) float32 (`image`: as pp gives it)
  std::vector<std::string> names;        // (n,) of the examples: files, or "row 17"
  std::vector<int64_t> labels;           // (n,); empty = not known, or not asked for
  std::vector<std::string> class_names;  // empty = not known
  bool sigmoid = false;  // the model was trained with sigmoid_xent, not softmax_xent
};

// Reads `model_name`, `model`, `num_classes`, `precision`, `loss`, `evals` and, without a
// checkpoint, `model_init`, `model_load`; the other keys of a training config are left alone, and
// where only `image` is asked for all of them. Throws Error(Exit::usage), naming the activations
// that there are where an output is none.
Prediction predict(const Config& config, const std::optional<Restored>& checkpoint,
                   const PredictRequest& request);

// The inputs as a data set of one split, in order. An example is {"image", "label"}: label 0, so
// that an evaluator's pp, which makes labels dense, runs. labels() are those of the npz, if any.
std::shared_ptr<const Source> open_inputs(const std::vector<std::string>& paths);

}  // namespace bv
