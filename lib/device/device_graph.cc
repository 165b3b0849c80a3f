#include "lib/device/device_graph.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <map>
#include <mutex>

#include "lib/device/cuda.h"

namespace at::cuda {
struct CUDAGraph;
}

namespace bv {
namespace {

using at::cuda::CUDAGraph;

class CudaGraph : public DeviceGraph {
 public:
  explicit CudaGraph(const std::function<void()>& work)
      : graph_(cuda_function<CUDAGraph*()>("bvtrain_cuda_graph_begin")()) {
    try {
      work();
    } catch (...) {
      try {
        end();
      } catch (const std::exception&) {  // the first error is more informative
      }
      destroy();
      throw;
    }
    try {
      end();
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~CudaGraph() override { destroy(); }
  CudaGraph(const CudaGraph&) = delete;

  void replay() override {
    static auto* const replay = cuda_function<void(CUDAGraph*)>("bvtrain_cuda_graph_replay");
    replay(graph_);
  }

 private:
  void end() { cuda_function<void(CUDAGraph*)>("bvtrain_cuda_graph_end")(graph_); }
  void destroy() { cuda_function<void(CUDAGraph*)>("bvtrain_cuda_graph_delete")(graph_); }

  CUDAGraph* graph_;
};

// Returns the stream on which all graphs of a device are captured. It is always the same, because
// cuBLAS keeps a 32 MiB workspace for each stream and thread that has used it.
c10::Stream recording_stream(const c10::impl::VirtualGuardImpl& impl, c10::Device device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::Stream> streams;
  const std::lock_guard lock(mutex);
  const auto known = streams.find(device.index());
  if (known != streams.end()) return known->second;
  return streams.emplace(device.index(), impl.getStreamFromGlobalPool(device)).first->second;
}

class CudaGraphRecorder : public GraphRecorder {
 public:
  explicit CudaGraphRecorder(c10::Device device)
      : impl_(device.type()), device_(device), stream_(recording_stream(impl_, device)) {}

  void run(const std::function<void()>& work) override {
    const c10::Stream current = impl_.getStream(device_);
    c10::Event before(device_.type()), after(device_.type());
    before.record(current);
    before.block(stream_);
    const auto join = [&] {
      after.record(stream_);
      after.block(current);
    };
    try {
      const c10::StreamGuard guard(stream_);
      work();
    } catch (...) {
      // What `work` has allocated is freed now, but the stream may still write to it. So the
      // current stream waits for it.
      try {
        join();
      } catch (const c10::Error&) {
        // The device has failed. The first exception is more informative.
      }
      throw;
    }
    join();
  }

  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    std::unique_ptr<DeviceGraph> graph;
    run([&] { graph = std::make_unique<CudaGraph>(work); });
    return graph;
  }

 private:
  const c10::impl::VirtualGuardImpl impl_;
  const c10::Device device_;
  const c10::Stream stream_;
};

}  // namespace

std::unique_ptr<GraphRecorder> cuda_graph_recorder(c10::Device device) {
  return std::make_unique<CudaGraphRecorder>(device);
}

}  // namespace bv
