// Whether an exception means that memory ran out: LibTorch reports this in several ways.
#pragma once

#include <exception>

namespace bv {

// Returns true for std::bad_alloc, c10::OutOfMemoryError, the error of LibTorch's CPU allocator,
// and the errors of CUDA and its libraries that name memory.
bool is_out_of_memory(const std::exception& error);

}  // namespace bv
