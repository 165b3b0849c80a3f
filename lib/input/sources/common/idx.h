// IDX files, the format of MNIST and similar data sets: a big-endian magic number 0x000008<rank>,
// then `rank` big-endian 32-bit dimensions, then the values as bytes. Files may be gzipped.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

namespace bv {

// Return the images of a file of rank 3 or 4 as (n, height, width, channels) uint8, with 1 channel
// for rank 3, and the labels of a file of rank 1 as (n,) int64. Throw Error(Exit::usage):
// "<file> @ offset 0: error: bad IDX magic 0x00000000, expected 0x00000803 (images)".
at::Tensor read_idx_images(const std::string& file);
at::Tensor read_idx_labels(const std::string& file);
// The same for files in memory that are not gzipped. `file` is for messages.
at::Tensor parse_idx_images(std::span<const uint8_t> bytes, const std::string& file);
at::Tensor parse_idx_labels(std::span<const uint8_t> bytes, const std::string& file);
// Throws Error(Exit::usage) naming both files if there are not as many labels as images.
void check_idx_counts(const at::Tensor& images, const std::string& image_file,
                      const at::Tensor& labels, const std::string& label_file);

}  // namespace bv
