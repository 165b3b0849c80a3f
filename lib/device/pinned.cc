#include "lib/device/pinned.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/strides.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "lib/device/cuda.h"
#include "lib/report/log.h"

namespace bv {
namespace {

// Returns `bytes` bytes, a multiple of the page size; null if the driver does not pin them.
void* lock(size_t bytes) {
  static auto* const pin = cuda_function<const char*(void*, size_t)>("bvtrain_cuda_pin");
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw c10::OutOfMemoryError(
        {__func__, __FILE__, __LINE__},
        fmt::format("cannot pin {} bytes of memory: the host has no memory left", bytes));
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  const char* const why = pin(memory, bytes);
  if (why == nullptr) return memory;
  ::munmap(memory, bytes);
  static std::once_flag told;
  std::call_once(told, [&] {
    log::warn(
        "cannot pin {} bytes of memory for copies to the GPU ({}): LibTorch's allocator is "
        "used instead, which rounds sizes up to powers of two",
        bytes, why);
  });
  return nullptr;
}

void unlock(void* memory, size_t bytes) {
  static auto* const unpin = cuda_function<void(void*)>("bvtrain_cuda_unpin");
  unpin(memory);
  ::munmap(memory, bytes);
}

}  // namespace

at::Tensor pinned_empty(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t used = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  const size_t bytes = std::max<size_t>((used + page - 1) / page, 1) * page;
  void* const memory = lock(bytes);
  if (memory == nullptr)
    return at::detail::empty_strided_cpu(sizes, strides, type, /*pin_memory=*/true);
  return at::from_blob(
      memory, sizes, strides, [bytes](void* locked) { unlock(locked, bytes); },
      at::TensorOptions(type));
}

at::Tensor pinned_empty(at::IntArrayRef sizes, at::ScalarType type) {
  return pinned_empty(sizes, c10::contiguous_strides(sizes), type);
}

}  // namespace bv
