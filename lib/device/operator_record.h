// Records what LibTorch's operators compute and move.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace bv {

// One call of an operator.
struct OperatorCall {
  std::string name;     // as LibTorch calls it, such as "aten::addmm"; "optimizer" for the update
  double flops = 0;     // of matrix products, convolutions and attention; 0 for all others
  double bytes = 0;     // of all inputs and outputs, each counted once
  bool update = false;  // the update called it (UpdateCalls)
  // False for a zero_() of little memory on a CPU, which calls no fill_(). It is recorded all the
  // same, so that steps of different batch sizes have the same calls.
  bool listed = true;
};

// Records the calls of all threads while it lives. Only one may exist at a time. If an operator
// calls others, only the others count; but products, convolutions, attention, norms, GELU, softmax,
// and add, sub, mul and div count as one each. Views and allocations are left out. bvtrain's own
// kernels count if they call note_operator() or note_kernel(), as those for layers on GPUs do.
class OperatorRecorder {
 public:
  // Only tensors on devices of this type count.
  explicit OperatorRecorder(c10::DeviceType type);
  static bool exists();
  ~OperatorRecorder();
  OperatorRecorder(const OperatorRecorder&) = delete;

  std::vector<OperatorCall> calls() const;  // in the order in which they ended
  double bytes() const;                     // the sum over all listed calls

 private:
  at::CallbackHandle handle_;
};

// While it lives, the calls of all threads are marked as those of the update. These calls do not
// depend on the number of examples. But their order may depend on the threads, and the values of
// the gradients may decide which calls there are.
class UpdateCalls {
 public:
  UpdateCalls();
  ~UpdateCalls();
  UpdateCalls(const UpdateCalls&) = delete;
};

// Add a call that is not one of LibTorch's operators, if a recorder exists. For note_kernel(),
// `tensors` are those that the kernel reads or writes; some may be undefined.
void note_operator(OperatorCall call);
void note_kernel(const char* name, at::TensorList tensors);

}  // namespace bv
