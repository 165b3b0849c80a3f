// The trained model that `bvtrain predict` runs: where its weights are, and what is known about it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/config/load_config.h"
#include "lib/input/image/value_span.h"
#include "lib/model/model.h"
#include "lib/model/pass.h"

namespace bv {

// What the command line names. At most one of `workdir` and `weights` is given.
struct PredictFrom {
  std::string workdir;  // a run, whose newest checkpoint is used
  std::string weights;  // a weights file
  std::string config;   // a YAML file; by default the checkpoint or the file describes its model
  std::vector<Override> overrides;
  std::string eval = {};  // the evaluator whose data is used, or empty
  bool ema = false;       // use the averaged weights of the checkpoint
};

struct PredictModel {
  Config config;
  // The weights: a checkpoint, or else a file, or else the config's model_init.
  std::optional<Restored> checkpoint;
  bool ema = false;  // use the averaged weights of the checkpoint
  std::string weights;
  std::string origin;  // of the weights, for messages

  // What the checkpoint or the file says about the training; empty if it does not say.
  std::optional<Config> trained;          // its config
  std::vector<std::string> class_names;   // one for each class
  std::vector<int64_t> image;             // height, width, channels
  std::string precision;                  // float32 or bf16
  std::optional<ValueSpan> image_values;  // of some training images after preprocessing
};

// Returns the precision to compute in. `auto` in the config means `trained`, the precision of the
// training ("float32" or "bf16"). If that is empty, because it is not known, `auto` means what it
// means on this device.
Precision precision_as_trained(const Config& config, const std::string& trained,
                               c10::Device device);

// Reads the config and the checkpoint or the card of the weights file. Throws Error(Exit::usage),
// also if a weights file has no card (lib/ckpt/model_card.h) and there is no config, or if an
// override has no effect.
PredictModel open_predict_model(const PredictFrom& from);

// Copies the weights of a checkpoint into the model; with `ema` their averages, where it has them.
// Throws Error(Exit::usage), without changing the model, if they do not fit, or with `ema` if there
// are none.
void copy_weights(const Restored& checkpoint, bool ema, Model& model);

}  // namespace bv
