// How a step handles a loss, a gradient or an update that is not finite. With `nan: skip` or
// `nan: rollback` it leaves out the update. Otherwise it reports the value, before the update if it
// is known by then.
#include <c10/core/GradMode.h>

#include <cmath>
#include <tuple>

#include "lib/train/step/step.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Values that must stay finite. If several are not, the first one is reported.
constexpr const char* kMeasured[] = {"training_loss", "l2_grads", "l2_updates", "l2_params"};

}  // namespace

// Returns whether the step is skipped, because its loss or a gradient is not finite. The weights
// and the optimizer state are unchanged; `buffers` are restored. All ranks make the same decision,
// because they have the same sums.
bool TrainStep::skip(const StepResult& result, const Views& buffers, bool measure) {
  skipped_.clear();
  const auto own_loss = result.loss.item<double>();
  const auto grad_squares = result.grad_squares.item<double>();
  if (std::isfinite(own_loss) && std::isfinite(grad_squares)) return false;
  const c10::AutoGradMode no_grad(false);
  for (size_t i = 0; i < buffers.size(); ++i) buffers_[i].second.copy_(buffers[i].second);
  ++*count_.mutable_data_ptr<int64_t>();
  skipped_ = describe_bad(own_loss, grad_squares);
  if (on_bad_step_) on_bad_step_(count(), skipped_, /*before=*/true);
  if (!measure) return true;
  std::tie(loss_, l2_grads_, l2_updates_) = std::tuple(own_loss, std::sqrt(grad_squares), 0.0);
  const at::Tensor params = squares(params_.data(), &UpdateRange::data, "parameter norm");
  l2_params_ = std::sqrt(params.item<double>() + frozen_squares_);
  return true;
}

// Without nan_limit, the update proceeds and corrupts the weights. So the hook is called for the
// first bad step before its update. Reads only values that are computed anyway.
void TrainStep::look_before_update(const StepResult& result) {
  if (!on_bad_step_ || told_bad_step_ || !device_.is_cpu()) return;
  const at::Tensor& grads = result.grad_squares;
  const double own_loss = *result.loss.const_data_ptr<double>();
  const double squares = grads.defined() ? *grads.const_data_ptr<double>() : 0;
  if (std::isfinite(own_loss) && std::isfinite(squares)) return;
  told_bad_step_ = true;
  on_bad_step_(count() + 1, describe_bad(own_loss, squares), /*before=*/true);
}

// `squares` is the sum of squares of the gradients, which may be infinite although no gradient is.
std::string TrainStep::describe_bad(double loss, double squares) const {
  std::string bad = bad_gradients();
  if (bad.empty() && !std::isfinite(squares)) bad = "the norm of the gradients is not finite";
  return fmt::format("the loss is {}{}{}", std::isnan(loss) ? "nan" : short_number(loss),
                     bad.empty() ? "" : "; ", bad);
}

// Returns "3 of 14 gradients are not finite, such as that of 'head/kernel'". Returns "" if all
// gradients are finite, or if anything is sharded. `what` names what params_.grads() holds.
std::string TrainStep::bad_gradients(const char* what) const {
  if (units_) return "";
  std::string first;
  int64_t bad = 0, all = 0;
  for (const FlatParams::Slice& slice : params_.slices(FlatParams::BufferKind::grads)) {
    ++all;
    const at::Tensor grad = params_.grads().narrow(0, slice.offset, slice.count);
    if (grad.isfinite().all().item<bool>()) continue;
    if (++bad == 1) first = slice.entry->name;
  }
  if (bad == 0) return "";
  return fmt::format("{} of {} {} are not finite, such as that of '{}'", bad, all, what, first);
}

void TrainStep::record_non_finite(std::span<const double> values) {
  for (size_t i = 0; i < values.size() && non_finite_.empty(); ++i)
    if (!std::isfinite(values[i])) non_finite_ = kMeasured[i];
  if (non_finite_.empty()) return;
  const std::string bad = bad_gradients(
      config_.optimizer->replaces_gradients() ? "gradients or update directions" : "gradients");
  first_non_finite_ = fmt::format("first at step {}{}{}", count(), bad.empty() ? "" : ": ", bad);
  if (!on_bad_step_ || told_bad_step_) return;
  // Detected only after the update, because this step did not compute the gradient norm.
  told_bad_step_ = true;
  on_bad_step_(count(),
               fmt::format("{} is not finite{}{}", non_finite_, bad.empty() ? "" : "; ", bad),
               /*before=*/false);
}

const std::string& TrainStep::non_finite() {
  if (bad_.defined() && non_finite_.empty()) {
    const Group::DeviceWait wait(group_, device_);
    const at::Tensor host = bad_.cpu();
    for (int i = 0; i < 4 && non_finite_.empty(); ++i)
      if (host.const_data_ptr<bool>()[i]) non_finite_ = kMeasured[i];
  }
  return non_finite_;
}

}  // namespace bv
