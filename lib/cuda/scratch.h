// Temporary device memory from LibTorch's caching allocator. It belongs to a stream and is freed by
// the destructor.
#pragma once

#include <cstddef>

namespace bv {

class Scratch {
 public:
  // Allocates `bytes` for `stream`, a cudaStream_t. Throws c10::OutOfMemoryError.
  Scratch(size_t bytes, void* stream);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_;
};

}  // namespace bv
