// IDX files, the format of MNIST and its kin: a big-endian magic 0x000008<rank>, `rank` big-endian
// 32-bit dimensions, then bytes; plain or gzipped.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

namespace bv {

// (n, h, w, c) uint8, of a rank 3 (c = 1) or rank 4 file; (n,) int64. Throw Error(Exit::usage):
// "<file> @ offset 0: error: bad IDX magic 0x00000000, expected 0x00000803 (images)".
at::Tensor read_idx_images(const std::string& file);
at::Tensor read_idx_labels(const std::string& file);
// The same from memory; `file` is for messages.
at::Tensor parse_idx_images(std::span<const uint8_t> bytes, const std::string& file);
at::Tensor parse_idx_labels(std::span<const uint8_t> bytes, const std::string& file);
// Throws Error(Exit::usage) naming both files where the counts differ.
void check_idx_counts(const at::Tensor& images, const std::string& image_file,
                      const at::Tensor& labels, const std::string& label_file);

}  // namespace bv
