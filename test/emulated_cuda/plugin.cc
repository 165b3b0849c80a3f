// The functions of libbvtrain_cuda.so for the emulated GPU. The kernels are those of
// lib/cuda/kernels.cu; launch.cc runs them on the CPU.
#include "lib/cuda/kernels.cu"

#include <ATen/Context.h>

#include <map>
#include <mutex>

#include "test/emulated_cuda/memory.h"
#include "test/emulated_cuda/pinned.h"
#include "test/emulated_cuda/recording.h"
#include "test/emulated_cuda/tensors.h"

namespace bv {

Scratch::Scratch(size_t bytes, void*) : memory_(emulation::DeviceMemory::get().allocate(bytes)) {}
Scratch::~Scratch() { emulation::DeviceMemory::get().free(memory_); }

namespace emulation {
namespace {

std::mutex g_mutex;
std::map<const void*, size_t> g_pinned;

}  // namespace

void pin(void* memory, size_t bytes) {
  const std::lock_guard lock(g_mutex);
  g_pinned[memory] = bytes;
}

void unpin(void* memory) {
  const std::lock_guard lock(g_mutex);
  g_pinned.erase(memory);
}

bool is_pinned(const void* address) {
  const std::lock_guard lock(g_mutex);
  auto next = g_pinned.upper_bound(address);
  if (next == g_pinned.begin()) return false;
  --next;
  return static_cast<const char*>(address) < static_cast<const char*>(next->first) + next->second;
}

}  // namespace emulation
}  // namespace bv

using bv::emulation::Graph;

BV_EXPORT const char* bvtrain_cuda_version() { return BV_CUDA_VERSION; }
BV_EXPORT int bvtrain_cuda_count(char*, int) { return bv::emulation::device_count(); }
BV_EXPORT void bvtrain_cuda_name(int, char* name, int length) {
  std::snprintf(name, static_cast<size_t>(length), "emulated GPU");
}
BV_EXPORT void bvtrain_cuda_use(int index) {
  bv::emulation::use_device(index);
  at::globalContext().lazyInitDevice(at::kCUDA);
}
BV_EXPORT const char* bvtrain_cuda_pin(void* memory, size_t bytes) {
  bv::emulation::pin(memory, bytes);
  return nullptr;
}
BV_EXPORT void bvtrain_cuda_unpin(void* memory) { bv::emulation::unpin(memory); }
BV_EXPORT void* bvtrain_cuda_stream(int) { return nullptr; }  // kernels use the current one

BV_EXPORT Graph* bvtrain_cuda_graph_begin() { return bv::emulation::begin_recording(); }
BV_EXPORT void bvtrain_cuda_graph_end(Graph* graph) { bv::emulation::end_recording(graph); }
BV_EXPORT void bvtrain_cuda_graph_replay(Graph* graph) { bv::emulation::replay(graph); }
BV_EXPORT void bvtrain_cuda_graph_delete(Graph* graph) { bv::emulation::destroy(graph); }
