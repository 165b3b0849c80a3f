// Captures and replays CUDA graphs for lib/device/device_graph.h. LibTorch keeps the memory that a
// capture allocates until the graph is deleted.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "lib/cuda/export.h"

namespace {

class Graph : public at::cuda::CUDAGraph {
 public:
  // Call it when capture_begin() or capture_end() has thrown. LibTorch 2.11 then leaves its
  // allocators and generators in capture mode, so memory that another stream has used is never
  // freed.
  void abandon() noexcept {
    if (capture_ended_ || capture_dev_ == UNDEFINED_DEVICE) return;
    auto* const device = c10::cuda::CUDACachingAllocator::get();
    auto* const host = at::getHostAllocator(at::kCUDA);
    const auto regardless = [](const auto& call) {
      try {
        call();
      } catch (...) {  // the capture failed before this part began
      }
    };
    regardless([&] { device->endAllocateToPool(capture_dev_, mempool_id_); });
    regardless([&] { device->releasePool(capture_dev_, mempool_id_); });
    regardless([&] { host->end_allocate_to_pool(mempool_id_); });
    regardless([&] { host->release_pool(mempool_id_); });
    for (const auto& [state, increment] : captured_generator_states_) state->capturing_ = false;
    (void)cudaGetLastError();  // or the next check of a kernel would find this error
  }
};

}  // namespace

// Starts to capture the kernels that are launched on the current stream, which must not be the
// default stream.
BV_EXPORT Graph* bvtrain_cuda_graph_begin() {
  // The graph cannot use the memory that the allocator has kept from earlier steps.
  c10::cuda::CUDACachingAllocator::emptyCache();
  auto* const graph = new Graph();
  try {
    // Relaxed: other threads, such as those that save a checkpoint, may use the device meanwhile.
    graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  } catch (...) {
    graph->abandon();
    delete graph;
    throw;
  }
  return graph;
}

BV_EXPORT void bvtrain_cuda_graph_end(Graph* graph) {
  try {
    graph->capture_end();
  } catch (...) {
    graph->abandon();
    throw;
  }
}

// Launches the captured kernels on the current stream.
BV_EXPORT void bvtrain_cuda_graph_replay(Graph* graph) { graph->replay(); }

BV_EXPORT void bvtrain_cuda_graph_delete(Graph* graph) { delete graph; }
