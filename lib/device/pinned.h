// Page-locked memory, from which a GPU copies without the CPU's help.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns an uninitialized tensor in its own pinned memory. at::empty() would round its size up to
// a power of two. Pinning takes about a millisecond for 4 MB, so reuse a tensor instead
// of allocating another. Needs use_cuda(). Throws c10::OutOfMemoryError.
at::Tensor pinned_empty(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);
// The same, contiguous.
at::Tensor pinned_empty(at::IntArrayRef sizes, at::ScalarType type);

}  // namespace bv
