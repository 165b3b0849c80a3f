// The memory of large tensors on the CPU.
//
// A training step frees and allocates the same tensors as the step before. malloc maps a block of
// more than 32 MiB (lib/device/heap.h) again each time, and its first use takes a page fault for
// every 4 KiB, which took a sixth of the time of some models. LargeBlocks keeps the pages of freed
// blocks for the next tensors, of any size, and maps them in huge pages (2 MiB) where the system
// allows it.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace bv {

// Thread-safe.
class LargeBlocks {
 public:
  static constexpr size_t kLeast = 1 << 20;  // bytes; smaller blocks are malloc's

  LargeBlocks() = default;
  ~LargeBlocks();
  LargeBlocks(const LargeBlocks&) = delete;

  // Returns a block of at least `bytes`, or null if the system is out of memory. Its content is
  // undefined.
  void* allocate(size_t bytes);
  // Keeps the block's pages for allocate(). Returns false if no such block is in use.
  bool free(void* block);
  // Returns the kept pages to the system, and resets the peak of the bytes in use.
  void release();

  // Together they are at most 1.25 times the peak use since the last release(), plus 2 MiB.
  struct Bytes {
    size_t in_use, kept;
  };
  Bytes bytes() const;

 private:
  std::byte* take_kept(size_t bytes);
  std::byte* map(size_t bytes, size_t mapped);
  void insert(std::byte* range, size_t bytes);
  void remove(std::byte* range, size_t bytes);
  void unmap_until(size_t most);

  mutable std::mutex mutex_;
  std::unordered_map<void*, size_t> in_use_;         // blocks with their sizes
  std::map<std::byte*, size_t> kept_;                // ranges of freed blocks, by address
  std::set<std::pair<size_t, std::byte*>> by_size_;  // the same
  size_t bytes_in_use_ = 0, bytes_kept_ = 0, peak_in_use_ = 0;
};

// From now on, LibTorch allocates tensors of LargeBlocks::kLeast and more on the CPU from
// LargeBlocks. Sanitizers see only what malloc allocates, so with them this does nothing. Call it
// before other threads start.
void keep_large_tensors();
// Returns the memory of freed large tensors to the system. Call it when a phase of the program
// begins whose tensors have other sizes.
void release_large_tensors();

// While it lives, malloc allocates all tensors, and LargeBlocks keeps nothing. Evaluations use it:
// they may collect large tables from all ranks, and kept memory would add to those.
class TensorsFromMalloc {
 public:
  TensorsFromMalloc();
  ~TensorsFromMalloc();
  TensorsFromMalloc(const TensorsFromMalloc&) = delete;
};

}  // namespace bv
