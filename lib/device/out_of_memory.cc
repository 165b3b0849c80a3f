#include "lib/device/out_of_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

namespace bv {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr)
    return true;
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string_view what =
      of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  // c10/core/impl/alloc_cpu.cpp has two wordings. The others come from cudaMalloc and
  // cudaHostAlloc, cuBLAS, cuDNN (7 and later, 9) and NCCL, for which LibTorch throws a plain
  // c10::Error. cuBLAS returns NOT_INITIALIZED if there is no memory for its handle.
  constexpr std::array<std::string_view, 10> kWordings = {
      "DefaultCPUAllocator: can't allocate memory",
      "DefaultCPUAllocator: not enough memory",
      "CUDA error: out of memory",
      "CUBLAS_STATUS_ALLOC_FAILED",
      "CUBLAS_STATUS_NOT_INITIALIZED",
      "CUDNN_STATUS_ALLOC_FAILED",
      "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
      "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
      "Cuda failure 2 'out of memory'",  // of the driver
      "Cuda failure 'out of memory'"};   // of the runtime
  // Errors of the CUDA plug-in (check_cuda in lib/cuda/check.h).
  if (what.starts_with("CUDA: ") && what.ends_with(": out of memory")) return true;
  return of_torch != nullptr &&
         std::any_of(kWordings.begin(), kWordings.end(), [&](std::string_view wording) {
           return what.find(wording) != std::string_view::npos;
         });
}

}  // namespace bv
