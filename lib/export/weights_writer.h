// The interface of a writer of one architecture's weights in one format. Each writer is a file,
// lib/export/<format>/<model_name>.cc, which ends in
//     const Register<WeightsWriter, ItsClass> registered("<format>/<model_name>");
// Its constructor takes (const Config& model, const TrainedModel&). It reads from the section
// `model` what the parameters do not show, and throws Error(Exit::usage) if the format cannot hold
// the model.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "lib/config/registry.h"
#include "lib/export/trained_model.h"

namespace bv {

class WeightsWriter {
 public:
  using Registry = bv::Registry<WeightsWriter, TrainedModel>;
  static constexpr const char* kKind = "weights writer";

  virtual ~WeightsWriter() = default;
  // Writes the file `output`; if it fails, there is no file. Throws Error(Exit::usage) or
  // Error(Exit::storage).
  virtual void write(const std::string& output) const = 0;
};

// Returns the parameter `name`. Throws Error(Exit::usage) if the model has no such parameter.
const at::Tensor& trained_parameter(const TrainedModel& trained, const std::string& name);
// The same for a buffer.
const at::Tensor& trained_buffer(const TrainedModel& trained, const std::string& name);
// Returns the size of the model's images, with the channels of its first kernel (rows, columns,
// channels, out). Throws Error(Exit::usage) if the size is unknown.
ImageSize known_image(const TrainedModel& trained, const at::Tensor& kernel);

}  // namespace bv
