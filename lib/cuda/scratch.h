// Memory of a stream for as long as the object lives, from LibTorch's caching allocator.
#pragma once

#include <cstddef>

namespace bv {

class Scratch {
 public:
  // `stream` is a cudaStream_t. Throws c10::OutOfMemoryError.
  Scratch(size_t bytes, void* stream);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_;
};

}  // namespace bv
