// The numbers that change from step to step: the step number, the mixup coefficient, the values of
// the schedules, and what the optimizer computes from the number of updates. They are in one small
// tensor on the device of the parameters. Its address never changes, so a step that was recorded as
// a graph (lib/train/step/step_graph.h) reads the new numbers when it is replayed.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/optim/optimizer.h"

namespace bv {

class StepNumbers {
 public:
  struct Values {
    int64_t step = 0;  // from 1
    double mixup = 1;  // the weight of each image itself
    float ema_decay = 0;
    Optimizer::RuleNumbers rule = {};
    std::span<const float> schedules = {};
  };

  // `schedules` is the number of schedules.
  StepNumbers(int64_t schedules, c10::Device device);
  ~StepNumbers();  // waits until the device has taken the numbers
  StepNumbers(const StepNumbers&) = delete;

  // Work that is started on the current stream from now on sees these numbers. Work that was
  // started earlier still sees the earlier ones. The host waits only until the device has taken the
  // numbers of the call before the last one.
  void set(const Values& values);

  const at::Tensor& step() const { return step_; }    // () int64
  const at::Tensor& mixup() const { return mixup_; }  // (2) float32: the share, and 1 - the share
  // The share of the new value in averages: 1 - the decay. () float32
  const at::Tensor& ema_rest() const { return ema_rest_; }
  const at::Tensor& fused() const { return fused_; }  // for StepScalars::numbers

 private:
  at::Tensor all_;  // (n) float32, on the device; the tensors below are views of it
  at::Tensor step_, mixup_, ema_rest_, fused_;
  // Two copies on the host, in pinned memory for CUDA. Without copies, `all_` is on the host.
  std::array<at::Tensor, 2> host_;
  std::array<std::optional<c10::Event>, 2> copied_;  // when the device has read them
  size_t next_ = 0;                                  // of host_
};

}  // namespace bv
