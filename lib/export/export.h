// Weights written for other programs: what `bvtrain export` does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/ckpt/checkpointer.h"
#include "lib/config/config.h"

namespace bv {

struct ImageSize {
  int64_t height = 0, width = 0;  // 0: not known
  int64_t channels = 3;
};

// A trained model: its config and its weights.
struct Trained {
  Config config;         // model_name, model, num_classes are read
  NamedTensors params;   // by the reference's names, float32
  NamedTensors buffers;  // running statistics
  ImageSize image;       // what it was trained on
  std::string origin;    // for messages: the checkpoint's folder, or the config file
};

// Of a checkpoint. `ema`: the averaged weights in place of those trained, where there are some.
Trained trained_from(const Restored& checkpoint, bool ema);
// Built from a config and its `model_init` (`model_load`). `size` as given on the command line; a
// vit's learned square position embedding, or a mixer's number of tokens, tells it else. Throws
// Error(Exit::usage).
Trained trained_from(const Config& config, std::optional<ImageSize> size);

// `format`: npz (params/<path>, buffers/<path>), safetensors (the same names), or one whose writer
// is registered for the model (writer.h): timm (safetensors in timm's names, the arguments of its
// class in the metadata), onnx (opset 17). Other models are refused by name. Nothing is written
// unless all is well. Throws Error(Exit::usage) or Error(Exit::storage).
void export_weights(const Trained& trained, const std::string& format, const std::string& output);

// "224", "192,256" (height, width) or "28,28,1" (and channels, else 3). Throws Error(Exit::usage).
ImageSize parse_image_size(const std::string& text);

}  // namespace bv
