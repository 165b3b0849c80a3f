// The plug-in functions that lib/device/cuda.h wraps.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "lib/cuda/export.h"
#include "lib/cuda/scratch.h"

namespace {
constexpr int kLeastMajor = 8;  // the minimum of CMAKE_CUDA_ARCHITECTURES in cmake/Cuda.cmake
}

BV_EXPORT const char* bvtrain_cuda_version() { return BV_CUDA_VERSION; }

// Returns the number of devices. If one of them cannot be used, returns 0, and `why` holds the
// reason.
BV_EXPORT int bvtrain_cuda_count(char* why, int length) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    std::snprintf(why, static_cast<size_t>(length), "%s", cudaGetErrorString(error));
    (void)cudaGetLastError();
    return 0;
  }
  if (count == 0) std::snprintf(why, static_cast<size_t>(length), "none is visible");
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess || properties.major >= kLeastMajor)
      continue;
    std::snprintf(why, static_cast<size_t>(length),
                  "device %d (%s) has compute capability %d.%d, and at least %d.0 is needed; leave "
                  "it out of CUDA_VISIBLE_DEVICES",
                  i, properties.name, properties.major, properties.minor, kLeastMajor);
    return 0;
  }
  return count;
}

BV_EXPORT void bvtrain_cuda_name(int index, char* name, int length) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) == cudaSuccess)
    std::snprintf(name, static_cast<size_t>(length), "%s", properties.name);
}

BV_EXPORT void bvtrain_cuda_use(int index) {
  // cuBLAS results are reproducible only with a fixed workspace size.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  at::Context& context = at::globalContext();
  context.lazyInitDevice(at::kCUDA);
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
}

// Pins host memory. Returns null, or the error string.
BV_EXPORT const char* bvtrain_cuda_pin(void* memory, size_t bytes) {
  const cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
  if (error == cudaSuccess) return nullptr;
  cudaGetLastError();  // or the next check of a kernel would find this error
  return cudaGetErrorString(error);
}
BV_EXPORT void bvtrain_cuda_unpin(void* memory) { cudaHostUnregister(memory); }

BV_EXPORT void* bvtrain_cuda_stream(int index) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(index)).stream();
}

namespace bv {

Scratch::Scratch(size_t bytes, void* stream)
    : memory_(c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(
          bytes, static_cast<cudaStream_t>(stream))) {}

Scratch::~Scratch() { c10::cuda::CUDACachingAllocator::raw_delete(memory_); }

}  // namespace bv
