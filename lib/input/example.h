// Example: the named tensors of one example, which sources make and ops change.
//
// Comments in all headers write shapes as in Python: () is a scalar, (n) or (n,) a vector, and
// (n, h, w, c) holds n images of h rows, w columns and c channels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace bv {

// The features of one example by key, or of several examples, with a leading batch dimension on
// every tensor. Encoded images are (bytes,) uint8, decoded images are (height, width, channels),
// labels are () int64, and text is UTF-8 bytes (ops/common/text_tensor.h).
using Example = std::map<std::string, at::Tensor>;

// Returns an example, or a batch, with a copy of every tensor.
Example copy_of(const Example& example);

// Returns the names of the tensors, separated by commas, for messages.
std::string names_of(const Example& example);

// Returns why no model can take an image with this number of dimensions and this type, for messages
// about preprocessing. Returns "" for (height, width, channels) float32, which models take.
std::string image_fault(int64_t dimensions, at::ScalarType type);

}  // namespace bv
