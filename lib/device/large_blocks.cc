#include "lib/device/large_blocks.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>

namespace bv {
namespace {

constexpr size_t kHugePage = 2 << 20;
constexpr size_t kUnit = kHugePage / 8;  // block sizes are multiples of it
// Used and kept blocks together may exceed the peak of used blocks by a quarter and a huge page,
// because kept blocks do not always fit the next request.
constexpr size_t kSlack = 4;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::byte* map_memory(size_t bytes) {
  void* const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

}  // namespace

LargeBlocks::~LargeBlocks() { unmap_until(0); }

void* LargeBlocks::allocate(size_t bytes) {
  if (bytes > std::numeric_limits<ptrdiff_t>::max()) return nullptr;
  const std::lock_guard lock(mutex_);
  bytes = rounded(bytes, kUnit);
  std::byte* block = take_kept(bytes);
  if (block == nullptr) {
    // Maps whole huge pages and keeps the rest.
    const size_t mapped = rounded(bytes, kHugePage);
    block = map(bytes, mapped);
    if (block == nullptr) return nullptr;
    if (mapped > bytes) insert(block + bytes, mapped - bytes);
  }
  in_use_.emplace(block, bytes);
  bytes_in_use_ += bytes;
  peak_in_use_ = std::max(peak_in_use_, bytes_in_use_);
  return block;
}

// Takes the first part of the smallest kept range that is large enough. Returns null if there is
// none.
std::byte* LargeBlocks::take_kept(size_t bytes) {
  const auto found = by_size_.lower_bound({bytes, nullptr});
  if (found == by_size_.end()) return nullptr;
  const auto [size, range] = *found;
  remove(range, size);
  if (size > bytes) insert(range + bytes, size - bytes);
  return range;
}

// Maps `mapped` bytes, aligned to huge pages, for a block of `bytes`.
std::byte* LargeBlocks::map(size_t bytes, size_t mapped) {
  const size_t peak = std::max(peak_in_use_, bytes_in_use_ + bytes);
  unmap_until(peak + peak / kSlack + kHugePage - bytes_in_use_ - mapped);
  std::byte* range = map_memory(mapped + kHugePage);
  if (range == nullptr) {
    unmap_until(0);
    range = map_memory(mapped + kHugePage);
    if (range == nullptr) return nullptr;
  }
  const auto place = reinterpret_cast<uintptr_t>(range);
  const size_t before = rounded(place, kHugePage) - place;
  if (before > 0) ::munmap(range, before);
  if (before < kHugePage) ::munmap(range + before + mapped, kHugePage - before);
  ::madvise(range + before, mapped, MADV_HUGEPAGE);  // no harm if it fails
  return range + before;
}

bool LargeBlocks::free(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(block);
  if (found == in_use_.end()) return false;
  auto* range = static_cast<std::byte*>(block);
  size_t size = found->second;
  bytes_in_use_ -= size;
  in_use_.erase(found);
  // Joins it with the ranges before and after it.
  auto next = kept_.lower_bound(range);
  if (next != kept_.end() && next->first == range + size) {
    const size_t more = next->second;
    remove(next->first, more);
    size += more;
    next = kept_.lower_bound(range);
  }
  if (next != kept_.begin()) {
    const auto [previous, length] = *std::prev(next);
    if (previous + length == range) {
      remove(previous, length);
      range = previous;
      size += length;
    }
  }
  insert(range, size);
  return true;
}

void LargeBlocks::insert(std::byte* range, size_t bytes) {
  kept_.emplace(range, bytes);
  by_size_.emplace(bytes, range);
  bytes_kept_ += bytes;
}

void LargeBlocks::remove(std::byte* range, size_t bytes) {
  kept_.erase(range);
  by_size_.erase({bytes, range});
  bytes_kept_ -= bytes;
}

// Unmaps kept ranges, the largest first, until at most `most` bytes are kept. If it unmapped the
// oldest first, a step that needs slightly more than `most` would always need the range that was
// just unmapped.
void LargeBlocks::unmap_until(size_t most) {
  while (bytes_kept_ > most) {
    const auto [size, range] = *by_size_.rbegin();
    const size_t excess = std::min(rounded(bytes_kept_ - most, kHugePage), size);
    remove(range, size);
    if (size > excess) insert(range, size - excess);
    std::byte* const end = range + size - excess;
    // munmap fails if the process has too many mappings already.
    if (::munmap(end, excess) != 0) ::madvise(end, excess, MADV_DONTNEED);
  }
}

void LargeBlocks::release() {
  const std::lock_guard lock(mutex_);
  unmap_until(0);
  peak_in_use_ = bytes_in_use_;
}

LargeBlocks::Bytes LargeBlocks::bytes() const {
  const std::lock_guard lock(mutex_);
  return {bytes_in_use_, bytes_kept_};
}

namespace {

// Never destroyed: tensors in static objects are freed after everything else.
LargeBlocks& blocks() {
  static auto* const all = new LargeBlocks();
  return *all;
}
at::Allocator* g_small = nullptr;                   // LibTorch's own allocator
std::atomic<size_t> g_least = LargeBlocks::kLeast;  // bytes; smaller blocks are g_small's

// raw_deleter() frees small blocks too, so the address alone must show to whom a block belongs.
void free_block(void* block) {
  if (block != nullptr && !blocks().free(block)) g_small->raw_deallocate(block);
}

class CpuAllocator : public at::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    if (bytes >= g_least) {
      void* const block = blocks().allocate(bytes);
      if (block != nullptr) return {block, block, &free_block, at::Device(at::kCPU)};
    }
    // LibTorch's allocator throws what callers expect if there is no memory.
    return g_small->allocate(bytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void keep_large_tensors() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (g_small != nullptr) return;
  static auto* const allocator = new CpuAllocator();
  g_small = c10::GetDefaultCPUAllocator();
  c10::SetCPUAllocator(allocator, /*priority=*/1);
#endif
}

void release_large_tensors() { blocks().release(); }

TensorsFromMalloc::TensorsFromMalloc() {
  blocks().release();
  g_least = std::numeric_limits<size_t>::max();
}

TensorsFromMalloc::~TensorsFromMalloc() {
  blocks().release();
  g_least = LargeBlocks::kLeast;
  ::malloc_trim(0);  // otherwise the heap would keep what the evaluation has used
}

}  // namespace bv
