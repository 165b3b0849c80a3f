// CUDA graphs for lib/device/device_graph.h. What is allocated during a recording comes from a pool
// of its own, which LibTorch keeps as long as the graph.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <exception>

#include "lib/cuda/export.h"

using at::cuda::CUDAGraph;

// Begins to record what is started on the current stream, which must not be the default one.
BV_EXPORT CUDAGraph* bvtrain_cuda_graph_begin() {
  // What earlier steps have left in the allocator's cache is of no use to the graph.
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

BV_EXPORT void bvtrain_cuda_graph_end(CUDAGraph* graph) { graph->capture_end(); }

// Ends a recording that has failed.
BV_EXPORT void bvtrain_cuda_graph_abandon(CUDAGraph* graph) {
  try {
    graph->capture_end();
  } catch (const std::exception&) {
    (void)cudaGetLastError();  // or the next check of a kernel would find this error
  }
}

// Starts the recorded work on the current stream.
BV_EXPORT void bvtrain_cuda_graph_replay(CUDAGraph* graph) { graph->replay(); }

BV_EXPORT void bvtrain_cuda_graph_delete(CUDAGraph* graph) { delete graph; }
