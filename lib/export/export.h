// Writes a trained model's weights in the format of another program: what `bvtrain export` does.
#pragma once

#include <string>

#include "lib/export/trained_model.h"

namespace bv {

// Writes the weights to the file `output`. `format` is one of
//   npz, safetensors   params/<path> and buffers/<path>; any model, with the scale of a
//                      regression's targets as buffers. All other formats fold it into the
//                      last layer
//   timm               safetensors with timm's names, and the arguments of timm's class as metadata
//   onnx               an inference graph, opset 17
// or another format that has a WeightsWriter for the model (lib/export/weights_writer.h). Each file
// carries metadata_of(trained); with npz and safetensors, its images are those of the training if
// they are known. Throws Error(Exit::usage) if the format cannot hold the model,
// Error(Exit::storage) if writing fails. In both cases no file is written.
void export_weights(const TrainedModel& trained, const std::string& format,
                    const std::string& output);

}  // namespace bv
