#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace bv {

// Prints the time of each product of ViT-B's dense layers, for `rows` tokens in bf16 on a GPU: with
// its epilogue, and by LibTorch's operators ("plain"). Also prints the operators that ran:
// bvtrain::product if the library supported the product.
void print_product_times(c10::Device device, int64_t rows);

}  // namespace bv
