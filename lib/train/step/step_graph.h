// A step as one CUDA graph. A small model's kernels run faster than the host can launch them; a
// graph launches them all with one call.
//
// The first steps run without a graph. Then one step is captured, and all later steps replay it:
// the same kernels with the same arguments at the same addresses. So each batch is copied to the
// same memory, and the numbers that change from step to step are in device memory too
// (lib/optim/step_numbers.h). Model::varies() says which models cannot be replayed.
//
// Several ranks capture the same step, with its collectives. If one of them cannot, the run ends:
// collectives that were begun in a failed capture cannot be undone. The graph must be destroyed
// before Group::finish(), because NCCL waits for graphs that hold its collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "lib/device/device_graph.h"
#include "lib/distributed/group.h"
#include "lib/tasks/task.h"

namespace bv {

// What a step leaves on the device. All are float64.
struct StepResult {
  at::Tensor loss = {};          // ()
  at::Tensor grad_squares = {};  // (); undefined if nothing needs it
  // (4): the loss, then three sums of squares: of the gradients (0 if it was not computed), of the
  // updates, and of the parameters. Undefined before the update.
  at::Tensor all = {};
};

class StepGraph {
 public:
  static constexpr int kRunsBefore = 2;  // steps that run before the recording
  using Work = std::function<StepResult(const Batch& batch)>;

  // `work` must do the same in each call. `group` must outlive this; all of its ranks must use a
  // graph.
  StepGraph(std::unique_ptr<GraphRecorder> recorder, Group& group, Work work)
      : recorder_(std::move(recorder)), group_(group), work_(std::move(work)) {}

  // Returns what work(batch) returns. The next call overwrites the result. A batch of other shapes
  // starts again with a new recording. If some of several ranks cannot record the work, each of
  // these throws c10::OutOfMemoryError or Error(Exit::internal) with its reason, and every other
  // process ends with code 7. If all ranks fail for another reason than memory, all throw
  // Error(Exit::usage).
  StepResult run(int64_t step, const Batch& batch);

  // Returns whether a later call will record the work.
  bool is_due() const { return graph_ == nullptr && !failed_; }
  bool is_recorded() const { return graph_ != nullptr; }

 private:
  bool fits(const Batch& batch) const;
  void record(int64_t step);
  struct Failure {
    std::exception_ptr error;  // null: none
    std::string why;
    bool of_memory = false;
  };
  void agree(int64_t step, const Failure& failure);

  std::unique_ptr<GraphRecorder> recorder_;
  Group& group_;
  const Work work_;
  Batch inputs_;       // the fixed place of the batch
  StepResult result_;  // of the recorded work
  int runs_ = 0;       // with inputs_, without the graph
  std::unique_ptr<DeviceGraph> graph_;
  Group::Counts recorded_;  // what the group does in the recorded work
  bool failed_ = false;     // to record the work, which then runs without a graph
};

}  // namespace bv
