// A trained model, loaded for export: its config and its weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/model_card.h"
#include "lib/config/config.h"
#include "lib/model/model.h"
#include "lib/train/weights/weights.h"

namespace bv {

struct ImageSize {
  int64_t height = 0, width = 0;  // 0: unknown
  int64_t channels = 3;
  bool operator==(const ImageSize&) const = default;
};

struct TrainedModel {
  Config config;         // its model_name, model and num_classes are used
  NamedTensors params;   // float32, by big_vision's names ("head/kernel")
  NamedTensors buffers;  // running statistics, and the scale of a regression's targets
  ImageSize image;       // the images that it takes
  // The images that it was trained on, if it is exported for others with the same weights.
  std::optional<ImageSize> trained_on;
  // The images that it was trained on, if the weights had to be resampled for `image`.
  std::optional<ImageSize> resampled_from;
  std::string origin;  // for messages: the checkpoint's folder, or the weights file
  ModelCard card;      // all but its version and its image
};

// Takes config and weights from a checkpoint. With `ema`, tensors that have averaged weights get
// those. Throws Error(Exit::usage) if `ema` is set and there are none.
TrainedModel load_trained_model(const Restored& checkpoint, bool ema);
// Warns if evaluators of the config measured the averaged weights but `ema` is false: their metrics
// do not apply to the weights that are used.
void warn_of_other_weights(const Config& config, bool ema);
// Builds the model of a config and loads `model_init` into it. `model_load.dont_load` must not
// match a parameter or buffer of the model. Copies to the card what the weights record about their
// training. If `size` is missing or has 0 channels, takes these from the weights, which is possible
// for files and checkpoints of bvtrain, for a vit with a learned square position embedding and for
// an mlp_mixer; 3 channels if the weights record none. For a workdir, all this is read from its
// newest intact checkpoint. Throws Error(Exit::usage).
TrainedModel load_trained_model(const Config& config, std::optional<ImageSize> size);

// Returns what is recorded about the training of the weights at `path`, which is as for
// read_weights(): class_names, image, image_values, precision, step and ema; from an exported file
// all fields. A field that is unknown or unreadable keeps its default. Warns if the metadata of a
// file is invalid.
ModelCard recorded_training(const std::string& path);
// Throws Error(Exit::usage) if `dont_load` leaves out parameters or buffers of the model, which
// would then be untrained.
void require_all_loaded(const DontLoad& dont_load, const Model& model);

// Sets the size of the images for which the model of a checkpoint is exported. If `size` has no
// channels (0), the number of channels stays that of the training. Throws Error(Exit::usage) if the
// weights do not fit such images: the shape of a weight depends on the number of channels or on the
// size, or a weight is tied to positions that such images do not have (weights_fit_places()).
void set_image_size(TrainedModel& trained, ImageSize size);

// Returns what every exported file says about its model, under the keys of lib/ckpt/model_card.h.
Metadata metadata_of(const TrainedModel& trained);

// The same for a file that can hold `most` bytes of metadata as JSON. If the class names make it
// longer, they are left out, with a warning that names the file `output`.
Metadata metadata_within(const TrainedModel& trained, uint64_t most, const std::string& output);

// Returns the section of the first evaluator that has a pp_fn: `bvtrain predict` preprocesses as it
// does, and exported files carry its text.
std::optional<Config> first_evaluator_with_pp(const Config& config);

// Parses "224" (a square), "192,256" (height, width) or "28,28,1" (with channels; otherwise they
// are 0). Throws Error(Exit::usage).
ImageSize parse_image_size(const std::string& text);

}  // namespace bv
