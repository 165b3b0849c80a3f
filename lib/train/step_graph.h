// The forward and backward passes of a step as one graph of a device. A small model's kernels take
// less time than the host needs to start them; a graph starts them all with one call.
//
// The first steps run as they would without a graph. Then one step is recorded, and all later steps
// repeat it: the same kernels with the same numbers at the same addresses. Therefore the batch is
// copied to a fixed place, and dropout reads the number of the step from the device's memory. Mixup
// and the optimizer get other numbers in each step, so they stay outside of the graph. They are a
// few kernels each. Model::varies() names models that cannot be repeated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "lib/device/device_graph.h"
#include "lib/tasks/task.h"

namespace bv {

class StepGraph {
 public:
  static constexpr int kRunsBefore = 2;  // steps that run before the recording
  // The work: gets a batch and the number of the step as () int64 on its device; returns the loss.
  using Work = std::function<at::Tensor(const Batch& batch, const at::Tensor& step)>;

  // `work` must do the same in each call. Once recording has failed, it is called without a step.
  StepGraph(std::unique_ptr<GraphRecorder> recorder, Work work)
      : recorder_(std::move(recorder)), work_(std::move(work)) {}

  // Returns what work(batch, step) returns. The next call overwrites the result. A batch of other
  // shapes starts again with a new recording.
  at::Tensor run(int64_t step, const Batch& batch);

  // Returns whether a later call will record the work.
  bool is_due() const { return graph_ == nullptr && !failed_; }
  bool is_recorded() const { return graph_ != nullptr; }

 private:
  bool fits(const Batch& batch) const;

  std::unique_ptr<GraphRecorder> recorder_;
  const Work work_;
  Batch inputs_;     // the fixed place of the batch
  at::Tensor step_;  // () int64
  at::Tensor loss_;  // the result of the recorded work
  int runs_ = 0;     // with inputs_, without the graph
  std::unique_ptr<DeviceGraph> graph_;
  bool failed_ = false;  // to record the work, which then runs without a graph
};

}  // namespace bv
