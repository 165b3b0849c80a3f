// Writers of one architecture's weights for one other program. A writer is a file of its own,
// lib/train/export/<format>/<model_name>.cc, that ends in
//     const Register<WeightsWriter, ItsClass> registered("<format>/<model_name>");
// Its constructor takes (const Config& model, const Trained&), reads of the section `model` what
// the parameters don't tell, and throws Error(Exit::usage) where the format can't hold them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "lib/config/registry.h"
#include "lib/export/export.h"

namespace bv {

class WeightsWriter {
 public:
  using Registry = bv::Registry<WeightsWriter, Trained>;
  static constexpr const char* kKind = "weights writer";

  virtual ~WeightsWriter() = default;
  // Writes the file `output`, whole or not at all. Throws Error(Exit::usage), Error(Exit::storage).
  virtual void write(const std::string& output) const = 0;
};

// Throws Error(Exit::usage) that names parameter `name` of `trained` where it has none.
const at::Tensor& trained_parameter(const Trained& trained, const std::string& name);
// The size of the model's images, its channels taken from the first kernel (rows, columns,
// channels, out). Throws Error(Exit::usage) where the size is not known.
ImageSize known_image(const Trained& trained, const at::Tensor& kernel);

}  // namespace bv
