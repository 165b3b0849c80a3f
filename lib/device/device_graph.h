// A CUDA graph: work of a device that is captured once and then launched as a whole, which saves
// the host the time to launch each kernel.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace bv {

class DeviceGraph {
 public:
  // Frees the memory that the work allocated during the capture.
  virtual ~DeviceGraph() = default;
  // Launches the captured work on the current stream. It uses the same memory as during
  // the capture.
  virtual void replay() = 0;
};

class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;
  // Runs `work` on the stream on which record() records it. Call this before record(): CUDA's
  // libraries allocate memory in their first calls, and such calls cannot be captured.
  virtual void run(const std::function<void()>& work) = 0;
  // Records what `work` starts, without computing it. Throws what `work` throws, or a
  // std::exception with the driver's reason. The device's memory then holds what it held before.
  virtual std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) = 0;
};

// Captures CUDA graphs. The work is launched on a separate stream, because the default stream
// cannot be captured; the current stream waits for it.
std::unique_ptr<GraphRecorder> cuda_graph_recorder(c10::Device device);

}  // namespace bv
