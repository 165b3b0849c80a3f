// Small data sets in every format that `bvtrain init` supports.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <string>
#include <vector>

#include "lib/ckpt/formats/npz.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"

namespace bv::test {

// Returns a JPEG file of one colour, or grey if `colour` is false.
inline std::string plain_jpeg(int64_t height, int64_t width, int shade, bool colour = true) {
  at::Tensor image = at::full({height, width, 3}, shade, at::kByte);
  if (colour) image.select(2, 0).fill_(255 - shade);
  return text_of(encode_jpeg(image, 95));
}

// Writes `count` images into <folder>/<name>/. The shade makes the classes easy to distinguish.
inline void write_class(const std::string& folder, const std::string& name, int count, int shade,
                        int64_t height = 16, int64_t width = 16, bool colour = true) {
  for (int i = 0; i < count; ++i)
    write(folder + "/" + name + "/" + std::to_string(i) + ".jpg",
          plain_jpeg(height, width, shade + i % 8, colour));
}

inline std::string idx_file(const std::vector<uint32_t>& shape, const std::string& data) {
  std::string text = number_text(0x800 + shape.size(), 4, false);
  for (const uint32_t n : shape) text += number_text(n, 4, false);
  return text + data;
}

// Writes the IDX files of a split, "train" or "t10k": images of side x side in which every value is
// 100 times the label, with the labels 0, 1, 2, 0, ...
inline void write_idx(const std::string& folder, const std::string& split, int count,
                      int side = 8) {
  std::string pixels, labels;
  for (int i = 0; i < count; ++i) {
    pixels += std::string(static_cast<size_t>(side * side), static_cast<char>(100 * (i % 3)));
    labels += static_cast<char>(i % 3);
  }
  const auto n = static_cast<uint32_t>(count), s = static_cast<uint32_t>(side);
  write(folder + "/" + split + "-images-idx3-ubyte", idx_file({n, s, s}, pixels));
  write(folder + "/" + split + "-labels-idx1-ubyte", idx_file({n}, labels));
}

// Writes binary CIFAR-10 with `count` images in each of its six files.
inline void write_cifar10(const std::string& folder, int count) {
  const auto batch = [&](int first) {
    std::string records;
    for (int i = 0; i < count; ++i) {
      const int label = (first + i) % 10;
      records += std::string(1, static_cast<char>(label));
      for (int channel = 0; channel < 3; ++channel)
        records += std::string(1024, static_cast<char>(20 * label + 10 * channel));
    }
    return records;
  };
  for (int i = 1; i <= 5; ++i)
    write(folder + "/data_batch_" + std::to_string(i) + ".bin", batch(2 * i));
  write(folder + "/test_batch.bin", batch(0));
}

// Returns arrays `image` (n, side, side) float32 in 0..1 and `label`, sorted by class.
inline NamedTensors sorted_arrays(int64_t classes, int64_t per_class, int64_t side = 8,
                                  const std::string& prefix = "") {
  const at::Tensor image = at::empty({classes * per_class, side, side});
  const at::Tensor label = at::empty({classes * per_class}, at::kLong);
  for (int64_t i = 0; i < label.size(0); ++i) {
    const int64_t at = i / per_class;
    image.select(0, i).fill_(static_cast<double>(at) / static_cast<double>(classes - 1));
    label.select(0, i).fill_(at);
  }
  return {{prefix + "image", image}, {prefix + "label", label}};
}

}  // namespace bv::test
