// The peak speed of a GPU and of its memory, looked up by its name.
#pragma once

#include <string_view>

namespace bv {

// Returns the FLOPs per second that the manufacturer states for dense matrix products of a GPU, in
// bfloat16 with float32 sums or in float32 without TF32. `name` is that of cuda_name(), such as
// "NVIDIA H100 80GB HBM3". 0 for a device that is not in the table.
double peak_flops(std::string_view name, bool bf16);
// Returns the bytes per second that the manufacturer states for the memory of a GPU. 0 for a device
// that is not in the table.
double peak_bandwidth(std::string_view name);

}  // namespace bv
