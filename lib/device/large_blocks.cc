#include "lib/device/large_blocks.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "lib/device/plain_kernels.h"

namespace bv {
namespace {

constexpr size_t kHugePage = 2 << 20;
// A kept block serves if it is larger than what is asked for by at most a quarter of that.
constexpr size_t kWaste = 4;
// All blocks together may exceed the peak of those in use by a quarter, because the sizes of kept
// blocks do not always fit.
constexpr size_t kSlack = 4;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

LargeBlocks::~LargeBlocks() { unmap_until(0); }

void* LargeBlocks::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes = rounded(bytes, bytes < 8 * kHugePage ? kHugePage / 8 : kHugePage);
  void* block = take_kept(bytes);
  if (block == nullptr) block = map(bytes);
  return block;
}

// Returns the smallest kept block that is large enough, or null.
void* LargeBlocks::take_kept(size_t bytes) {
  const auto found = kept_.lower_bound(bytes);
  if (found == kept_.end() || found->first > bytes + bytes / kWaste) return nullptr;
  const auto [size, block] = *found;
  kept_.erase(found);
  bytes_kept_ -= size;
  use(block, size);
  return block;
}

void* LargeBlocks::map(size_t bytes) {
  const size_t peak = std::max(peak_in_use_, bytes_in_use_ + bytes);
  unmap_until(peak + peak / kSlack - bytes_in_use_ - bytes);
  // The block begins where a huge page can begin.
  const size_t mapped = bytes + kHugePage;
  constexpr int kAccess = PROT_READ | PROT_WRITE, kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  void* address = ::mmap(nullptr, mapped, kAccess, kFlags, -1, 0);
  if (address == MAP_FAILED) {
    unmap_until(0);
    address = ::mmap(nullptr, mapped, kAccess, kFlags, -1, 0);
    if (address == MAP_FAILED) return nullptr;
  }
  auto* const first = static_cast<std::byte*>(address);
  const auto place = reinterpret_cast<uintptr_t>(address);
  const size_t before = rounded(place, kHugePage) - place;
  if (before > 0) ::munmap(first, before);
  if (kHugePage > before) ::munmap(first + before + bytes, kHugePage - before);
  void* const block = first + before;
  ::madvise(block, bytes, MADV_HUGEPAGE);  // no harm if it fails
  use(block, bytes);
  return block;
}

void LargeBlocks::use(void* block, size_t bytes) {
  in_use_.emplace(block, bytes);
  bytes_in_use_ += bytes;
  peak_in_use_ = std::max(peak_in_use_, bytes_in_use_);
}

bool LargeBlocks::free(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(block);
  if (found == in_use_.end()) return false;
  const size_t size = found->second;
  in_use_.erase(found);
  bytes_in_use_ -= size;
  bytes_kept_ += size;
  kept_.emplace(size, block);
  return true;
}

// Unmaps kept blocks until at most `most` bytes are kept. It begins with the largest ones. With the
// blocks that were freed first, a step that needs slightly more than `most` would map all its
// blocks anew, because it would always miss the one that was just unmapped.
void LargeBlocks::unmap_until(size_t most) {
  while (bytes_kept_ > most) {
    const auto largest = std::prev(kept_.end());
    ::munmap(largest->second, largest->first);
    bytes_kept_ -= largest->first;
    kept_.erase(largest);
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
at::Allocator* g_small = nullptr;  // LibTorch's own allocator

// LibTorch frees some blocks through raw_deleter(), so the address alone must tell whose they are.
void free_block(void* block) {
  if (block != nullptr && !blocks().free(block)) g_small->raw_deallocate(block);
}

class CpuAllocator : public at::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    if (bytes >= LargeBlocks::kLeast) {
      void* const block = blocks().allocate(bytes);
      if (block != nullptr) return {block, block, &free_block, at::Device(at::kCPU)};
    }
    // LibTorch's throws what callers expect if there is no memory.
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
  if (plain_kernels() || g_small != nullptr) return;
  static auto* const allocator = new CpuAllocator();
  g_small = c10::GetCPUAllocator();
  c10::SetCPUAllocator(allocator, /*priority=*/1);
#endif
}

void release_large_tensors() { blocks().release(); }

}  // namespace bv
