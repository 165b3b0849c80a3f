// Records and repeats CUDA graphs for lib/device/device_graph.h. LibTorch keeps the memory that a
// recording allocates until the graph is deleted.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "lib/cuda/export.h"

using at::cuda::CUDAGraph;

// Starts a recording: it collects the kernels that are launched on the current stream. That must
// not be the default stream.
BV_EXPORT CUDAGraph* bvtrain_cuda_graph_begin() {
  // The graph cannot use the memory that the allocator has kept from earlier steps.
  c10::cuda::CUDACachingAllocator::emptyCache();
  auto* const graph = new CUDAGraph();
  try {
    // Relaxed: other threads, such as those that save a checkpoint, may use the device meanwhile.
    graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  } catch (...) {
    delete graph;
    throw;
  }
  return graph;
}

BV_EXPORT void bvtrain_cuda_graph_end(CUDAGraph* graph) {
  try {
    graph->capture_end();
  } catch (...) {
    (void)cudaGetLastError();  // or the next check of a kernel would find this error
    throw;
  }
}

// Launches the recorded kernels on the current stream.
BV_EXPORT void bvtrain_cuda_graph_replay(CUDAGraph* graph) { graph->replay(); }

BV_EXPORT void bvtrain_cuda_graph_delete(CUDAGraph* graph) { delete graph; }
