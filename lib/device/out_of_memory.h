// Whether an exception says that memory was not enough: LibTorch has several ways to say so.
#pragma once

#include <exception>

namespace bv {

// Returns true for std::bad_alloc, c10::OutOfMemoryError, the error of LibTorch's CPU allocator,
// and the errors of CUDA and its libraries that name memory.
bool is_out_of_memory(const std::exception& error);

}  // namespace bv
