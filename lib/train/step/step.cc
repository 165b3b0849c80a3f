#include "lib/train/step/step.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "lib/device/operator_record.h"
#include "lib/optim/fused.h"
#include "lib/report/trace.h"

namespace bv {
namespace {

ShardingPlan sharding_plan(const StepConfig& config, const Model& model, const Group& group,
                           c10::Device device) {
  if (!group.open()) return {.device = device};
  return {group.rank(), group.size(), config.levels, model.units(), config.bucket_bytes, device};
}

// Moves the buffers to the parameters' device. Those on the meta device (a dry run) have no values
// to move.
Module::Named buffers_on(const Model& model, c10::Device device) {
  Module::Named all = named_buffers(model);
  for (auto& [name, buffer] : all) {
    if (buffer.device() != device && !buffer.is_meta()) buffer.set_data(buffer.to(device));
  }
  return all;
}

constexpr int64_t kSwapChunk = 1 << 22;  // elements

// The averages start at the initial weights. A small decay in the first steps lets them move away
// quickly.
float ema_decay_at(double decay, int64_t count) {
  const auto t = static_cast<double>(count);
  return static_cast<float>(std::min(decay, (1.0 + t) / (10.0 + t)));
}

}  // namespace

TrainStep::TrainStep(Model& model, const Task& task, StepConfig config, uint64_t seed,
                     Precision precision, Group& group, std::function<void(size_t)> init,
                     c10::Device device)
    : model_(model),
      task_(task),
      config_(std::move(config)),
      seed_(seed),
      precision_(precision),
      group_(group.open() ? group : Group::single()),
      device_(device),
      params_(model, config_.groups.group_of, sharding_plan(config_, model, group_, device), init),
      gradients_(params_),
      ranges_(update_ranges(config_.groups, params_)),
      numbers_(std::ssize(config_.groups.schedules), device),
      count_(at::zeros({}, at::kLong)),
      buffers_(buffers_on(model, device)) {
  config_.optimizer->allocate(params_, group_);
  compares_states_ = group_.size() > 1;
  if (!device.is_cpu()) bad_ = at::zeros({4}, at::TensorOptions(at::kBool).device(device));
  if (group_.open())
    buckets_ = std::make_unique<GradientBuckets>(params_, group_, config_.bucket_bytes);
  if (!params_.segments().empty()) {
    units_ = std::make_unique<ShardedUnits>(params_, group_);
    model_.hooks = units_.get();
  }
  if (!config_.ema_decay) return;
  ema_ = params_.new_buffer(at::kFloat);
  for (const auto& [name, buffer] : buffers_) {
    if (buffer.scalar_type() == at::kFloat) ema_buffers_.emplace_back(name, at::zeros_like(buffer));
  }
}

TrainStep::~TrainStep() {
  if (units_) model_.hooks = nullptr;
}

int64_t TrainStep::count() const { return *count_.const_data_ptr<int64_t>(); }

void TrainStep::sum_if_sharded(const at::Tensor& values, const char* what) const {
  if (units_) group_.all_reduce_sum(values, what).wait();
}

// Prepares what depends on the weights. They may be initialized or loaded after construction, so
// this runs at the first step or the first use of the averages.
void TrainStep::start() {
  if (started_) return;
  started_ = true;
  const int64_t trainable = params_.trainable_size();
  // Frozen parameters: first those that every rank holds, then the sharded ones.
  int64_t whole = params_.size() - trainable;
  bool any_sharded = false;
  for (const FlatParams::Segment& segment : params_.segments()) {
    if (segment.trainable) continue;
    any_sharded = true;
    whole = std::min(whole, segment.data_offset - trainable);
  }
  const auto squares = [&](int64_t from, int64_t length) {
    return square_sum(params_.data().narrow(0, trainable + from, length));
  };
  frozen_squares_ = squares(0, whole).item<double>();
  if (any_sharded) {
    const at::Tensor own = squares(whole, params_.size() - trainable - whole);
    sum_if_sharded(own, "frozen parameters");
    frozen_squares_ += own.item<double>();
  }
  if (!config_.ema_decay || count() > 0) return;
  for (const UpdateRange& range : ranges_) {
    const int64_t length = range.end - range.begin;
    ema_.narrow(0, range.begin, length).copy_(params_.data().narrow(0, range.data, length));
  }
  average_buffers(at::ones({}, ema_.options()));
}

// Returns the sum of squares of the trainable values of a flat buffer, over all ranks, () float64.
// `offset`: a range's place in the buffer.
at::Tensor TrainStep::squares(const at::Tensor& flat, int64_t UpdateRange::*offset,
                              const char* what) const {
  if (!units_) return square_sum(flat.narrow(0, 0, params_.trainable_size()));
  const at::Tensor sum = at::zeros({}, flat.options().dtype(at::kDouble));
  for (const UpdateRange& range : ranges_) {
    if (range.counts) sum.add_(square_sum(flat.narrow(0, range.*offset, range.end - range.begin)));
  }
  sum_if_sharded(sum, what);
  return sum;
}

// Returns the batch on the device. `done` records when the memory of `batch` has been read. The
// copy runs on a separate stream, so it does not wait for the previous step, which the device is
// still computing.
Batch TrainStep::upload(Batch batch, std::optional<c10::Event>& done) {
  if (device_.is_cpu()) return batch;
  const c10::impl::VirtualGuardImpl impl(device_.type());
  const c10::Stream compute = impl.getStream(device_);
  // The host runs at most two steps ahead, each of which has a batch on the device.
  std::optional<c10::Event>& end = ends_.at(static_cast<size_t>(count() % 2));
  if (end) end->synchronize();
  if (!copies_) copies_ = impl.getStreamFromGlobalPool(device_);
  done.emplace(device_.type());
  {
    const c10::StreamGuard guard(*copies_);
    for (auto& [name, value] : batch) value = value.to(device_, /*non_blocking=*/true);
    done->record(*copies_);
  }
  done->block(compute);
  // The allocator must not reuse this memory for the next copy while the step uses it.
  for (auto& [name, value] : batch) impl.recordDataPtrOnStream(value.storage().data_ptr(), compute);
  return batch;
}

double TrainStep::update_bytes() const {
  const Memory own = memory();
  return 2 * static_cast<double>(own.parameters + own.state) + static_cast<double>(own.gradients);
}

std::string TrainStep::use_graph(std::unique_ptr<GraphRecorder> recorder) {
  std::string why = model_.varies();
  if (!why.empty()) return why;
  graph_.emplace(std::move(recorder), group_,
                 [this](const Batch& batch) { return compute(batch, /*measure=*/true); });
  return "";
}

// Sends the step's numbers to the device. Only this function evaluates what changes from step to
// step.
void TrainStep::set_numbers(int64_t step) {
  const int64_t done = count();
  schedules_.clear();
  for (const Schedule& schedule : config_.groups.schedules) schedules_.push_back(schedule(done));
  numbers_.set({.step = step,
                .mixup = mixup_coefficient(seed_, step, config_.mixup.p),
                .ema_decay = config_.ema_decay ? ema_decay_at(*config_.ema_decay, done) : 0,
                .rule = config_.optimizer->rule_numbers(done),
                .schedules = schedules_});
}

ControlWord TrainStep::run(int64_t step, Batch batch, bool measure, const ControlWord& word) {
  // If the device hangs, any call may block: even a launch, once the device's queue is full.
  const Group::DeviceWait wait(group_, device_);
  start();
  check(step == count() + 1, "step {} after {} updates", step, count());
  digest_.reset();
  task_.check_training_values(batch);
  std::optional<c10::Event> uploaded;
  batch = upload(std::move(batch), uploaded);
  set_numbers(step);
  Views buffers;  // as they are before the step
  if (config_.nan_limit) {
    for (const auto& [name, buffer] : buffers_) buffers.emplace_back(name, buffer.clone());
  }
  word_.word = word;
  const bool word_alone = group_.open() && !device_.is_cpu();  // not with the loss
  if (word_alone) word_.begin(group_);
  ++runs_;
  StepResult result = graph_ ? graph_->run(step, batch) : compute(std::move(batch), measure);
  batch.clear();
  if (word_alone) word_.finish();
  if (config_.nan_limit) {
    const trace::Span span("optimizer");
    if (skip(result, buffers, measure)) return word_.word;
    update(result);
  }
  ++*count_.mutable_data_ptr<int64_t>();
  read_back(result.all, measure);
  if (uploaded) {
    std::optional<c10::Event>& end = ends_.at(static_cast<size_t>((step - 1) % 2));
    end.emplace(device_.type());
    end->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    uploaded->synchronize();
  }
  return word_.word;
}

// A step's work on the device, which can be captured in a graph: everything that changes from step
// to step is in `batch` and numbers_. With nan_limit, the caller does the update.
StepResult TrainStep::compute(Batch batch, bool measure) {
  StepResult result;
  {
    std::optional<OperatorRecorder> recorder;
    if (runs_ == 2 && device_.is_cuda() && model_.varies().empty() && !OperatorRecorder::exists())
      recorder.emplace(device_.type());
    prepare_batch(config_.mixup, config_.image_normalization, numbers_.mixup(), batch, group_);
    result.loss = compute_gradients(batch);
    batch.clear();
    if (recorder) step_bytes_ = recorder->bytes() + update_bytes();
  }
  const trace::Span span("optimizer");
  if (config_.clip_norm > 0 || measure || config_.nan_limit)
    result.grad_squares = squares(params_.grads(), &UpdateRange::grad, "gradient norm");
  if (!config_.nan_limit) {
    look_before_update(result);
    update(result);
  }
  return result;
}

// Updates the weights and everything that depends on them, and completes `result`.
void TrainStep::update(StepResult& result) {
  const UpdateCalls calls;
  const StepScalars scalars{.lr = config_.groups.lr,
                            .clip_norm = static_cast<float>(config_.clip_norm),
                            .grad_squares = result.grad_squares,
                            .numbers = numbers_.fused()};
  const at::Tensor norms =
      config_.optimizer->update(params_, ranges_, scalars, config_.ema_decay ? &ema_ : nullptr);
  if (units_) units_->all_gather_parameters();
  if (config_.ema_decay) average_buffers(numbers_.ema_rest());
  sum_if_sharded(norms, "norms");
  const at::Tensor grads = result.grad_squares.defined() ? result.grad_squares.view(1)
                                                         : at::zeros_like(norms.narrow(0, 0, 1));
  result.all = at::cat({result.loss.view(1), grads, norms.flip(0)});
  if (bad_.defined())
    bad_.logical_or_(result.all.isfinite().logical_not_().logical_and_(bad_.any().logical_not()));
}

// Returns digest(), (1) int64. Integer sums do not depend on their order.
at::Tensor TrainStep::digest_on_device() const {
  const at::Tensor sum = at::zeros({1}, params_.data().options().dtype(at::kLong));
  const auto add = [&](const at::Tensor& flat) {
    if (flat.numel() > 0) sum.add_(flat.view(at::kLong).sum());
  };
  for (const at::Tensor& range : params_.replicated_data()) add(range);
  for (const auto& [name, tensor] : config_.optimizer->other_state())
    sum.add_(tensor.view(at::kInt).sum());  // float32 of any number and strides
  // Buffers are never sharded. They may be of any type.
  for (const Views* buffers : {&buffers_, &ema_buffers_}) {
    for (const auto& [name, buffer] : *buffers)
      sum.add_(buffer.to(at::kDouble).view(at::kLong).sum());
  }
  if (units_) return sum;
  for (const Optimizer::Slot& slot : config_.optimizer->slots()) add(slot.flat);
  if (config_.ema_decay) add(ema_);
  return sum;
}

int64_t TrainStep::digest() const {
  if (digest_) return *digest_;
  const Group::DeviceWait wait(group_, device_);
  return digest_on_device().item<int64_t>();
}

// Keeps the values of a step, StepResult::all. They are read from a device only if they are
// measured; the digest comes with them.
void TrainStep::read_back(const at::Tensor& all, bool measure) {
  if (!device_.is_cpu() && !measure) return;
  const bool digests = measure && compares_states_;
  const at::Tensor host =
      (digests ? at::cat({all, digest_on_device().view(at::kDouble)}) : all).cpu();
  const double* values = host.const_data_ptr<double>();
  const std::array found = {values[0], std::sqrt(values[1]), std::sqrt(values[2]),
                            std::sqrt(values[3] + frozen_squares_)};
  if (device_.is_cpu() && non_finite_.empty()) record_non_finite(found);
  if (measure) std::tie(loss_, l2_grads_, l2_updates_, l2_params_) = std::tuple_cat(found);
  if (digests) digest_ = std::bit_cast<int64_t>(values[4]);
}

std::vector<std::pair<std::string, double>> TrainStep::measurements(int64_t step) const {
  std::vector<std::pair<std::string, double>> all;
  for (size_t i = 0; i < config_.groups.schedules.size(); ++i) {
    all.emplace_back("global_schedule" + (i == 0 ? std::string() : std::to_string(i)),
                     config_.groups.schedules[i](step - 1));
  }
  all.emplace_back("l2_grads", l2_grads_);
  all.emplace_back("l2_params", l2_params_);
  all.emplace_back("l2_updates", l2_updates_);
  all.emplace_back("training_loss", loss_);
  return all;
}

std::unique_ptr<TrainStep::EmaScope> TrainStep::use_ema() {
  check(config_.ema_decay.has_value(), "no averaged weights are kept");
  start();
  return std::make_unique<EmaScope>(*this);
}

void TrainStep::swap_ema() {
  for (const UpdateRange& range : ranges_) {
    // In chunks, to avoid a third copy of all weights.
    for (int64_t at = range.begin; at < range.end; at += kSwapChunk) {
      const int64_t length = std::min(kSwapChunk, range.end - at);
      const at::Tensor weights = params_.data().narrow(0, range.data + at - range.begin, length);
      const at::Tensor average = ema_.narrow(0, at, length), kept = weights.clone();
      weights.copy_(average);
      average.copy_(kept);
    }
  }
  if (units_) units_->all_gather_parameters();
  const c10::AutoGradMode no_grad(false);
  for (auto& [name, average_of] : ema_buffers_) {
    const auto own = std::find_if(buffers_.begin(), buffers_.end(),
                                  [&, &name = name](const auto& b) { return b.first == name; });
    const at::Tensor kept = own->second.clone();
    own->second.copy_(average_of);
    average_of.copy_(kept);
  }
}

// average = (1 - rest) * average + rest * buffer, for each float32 buffer. `rest`: () float32 on
// the device.
void TrainStep::average_buffers(const at::Tensor& rest) {
  const c10::AutoGradMode no_grad(false);
  size_t i = 0;
  for (const auto& [name, buffer] : buffers_) {
    if (buffer.scalar_type() == at::kFloat) ema_buffers_.at(i++).second.lerp_(buffer, rest);
  }
}

}  // namespace bv
