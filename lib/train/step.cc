#include "lib/train/step.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "lib/optim/fused.h"
#include "lib/report/trace.h"

namespace bv {
namespace {

ShardingPlan sharing(const StepConfig& config, const Model& model, const Group* group,
                     c10::Device device) {
  if (!group) return {.device = device};
  return {group->rank(), group->size(), config.levels, model.units(), config.bucket_bytes, device};
}

// Buffers follow the parameters.
Layer::Named buffers_on(const Model& model, c10::Device device) {
  Layer::Named all = named_buffers(model);
  for (auto& [name, buffer] : all) {
    if (buffer.device() != device) buffer.set_data(buffer.to(device));
  }
  return all;
}

Batch part_of(const Batch& batch, int64_t part, int64_t parts) {
  if (parts == 1) return batch;
  Batch some;
  for (const auto& [name, value] : batch) {
    const int64_t n = value.size(0) / parts;
    some[name] = value.narrow(0, part * n, n);
  }
  return some;
}

// The control word goes over the CPU, where it is read; the loss with it if it is there.
class SharedWord {
 public:
  void begin(Group& group, const at::Tensor& loss, const ControlWord& word) {
    values_ = at::empty({1 + std::ssize(word)}, at::kDouble);
    auto* values = values_.mutable_data_ptr<double>();
    values[0] = loss.is_cpu() ? *loss.const_data_ptr<double>() : 0;
    std::copy(word.begin(), word.end(), values + 1);
    pending_ = group.all_reduce_sum(values_, "control word");
  }
  void finish(const at::Tensor& loss, ControlWord& word) {
    pending_.wait();
    const auto* values = values_.const_data_ptr<double>();
    std::copy(values + 1, values + 1 + word.size(), word.begin());
    if (loss.is_cpu()) *loss.mutable_data_ptr<double>() = values[0];
  }

 private:
  at::Tensor values_;
  Group::Pending pending_;
};

constexpr int64_t kSwapped = 1 << 22;  // elements at a time

// What is measured and must be finite, in the order in which a value is blamed.
constexpr const char* kMeasured[] = {"training_loss", "l2_grads", "l2_updates", "l2_params"};

// Averages start at the initial weights; a short memory at first lets them leave these soon.
float ema_decay_at(double decay, int64_t count) {
  const auto t = static_cast<double>(count);
  return static_cast<float>(std::min(decay, (1.0 + t) / (10.0 + t)));
}

}  // namespace

TrainStep::TrainStep(Model& model, const Task& task, StepConfig config, uint64_t seed,
                     Precision precision, Group* group, std::function<void(size_t)> init,
                     c10::Device device)
    : model_(model),
      task_(task),
      config_(std::move(config)),
      seed_(seed),
      precision_(precision),
      group_(group && group->open() ? group : nullptr),
      device_(device),
      params_(model, config_.groups.group_of, sharing(config_, model, group_, device), init),
      ranges_(update_ranges(config_.groups, params_)),
      count_(at::zeros({}, at::kLong)),
      buffers_(buffers_on(model, device)) {
  config_.optimizer->allocate(params_, group_);
  if (group_) buckets_ = std::make_unique<GradientBuckets>(params_, *group_, config_.bucket_bytes);
  if (!params_.segments().empty()) {
    units_ = std::make_unique<Units>(params_, *group_);
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

void TrainStep::sum_over_ranks(const at::Tensor& values, const char* what) const {
  if (units_) group_->all_reduce_sum(values, what).wait();
}

// The weights are final only now: they may have been initialised or loaded since construction.
void TrainStep::start() {
  if (started_) return;
  started_ = true;
  const int64_t trainable = params_.trainable();
  int64_t whole = params_.size() - trainable;  // of which ranks have parts at the end
  bool parts = false;
  for (const FlatParams::Segment& segment : params_.segments()) {
    if (segment.trainable) continue;
    parts = true;
    whole = std::min(whole, segment.data - trainable);
  }
  const auto squares = [&](int64_t from, int64_t length) {
    return square_sum(params_.data().narrow(0, trainable + from, length));
  };
  frozen_squares_ = squares(0, whole).item<double>();
  if (parts) {
    const at::Tensor own = squares(whole, params_.size() - trainable - whole);
    sum_over_ranks(own, "frozen parameters");
    frozen_squares_ += own.item<double>();
  }
  if (!config_.ema_decay || count() > 0) return;
  for (const UpdateRange& range : ranges_) {
    const int64_t length = range.end - range.begin;
    ema_.narrow(0, range.begin, length).copy_(params_.data().narrow(0, range.data, length));
  }
  average_buffers(0.0F);
}

// The sum of squares of the whole batch's gradients.
at::Tensor TrainStep::squares() const {
  if (!units_) return square_sum(params_.grads().narrow(0, 0, params_.trainable()));
  const at::Tensor sum = at::zeros({}, params_.grads().options().dtype(at::kDouble));
  for (const UpdateRange& range : ranges_) {
    if (range.counts)
      sum.add_(square_sum(params_.grads().narrow(0, range.grad, range.end - range.begin)));
  }
  sum_over_ranks(sum, "gradient norm");
  return sum;
}

// The batch on the device. `done`: when its own memory has been read.
Batch TrainStep::upload(Batch batch, std::optional<c10::Event>& done) const {
  if (device_.is_cpu()) return batch;
  for (auto& [name, value] : batch) value = value.to(device_, /*non_blocking=*/true);
  done.emplace(device_.type());
  done->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return batch;
}

// The mean loss of a part of the batch, () float32, with a gradient.
at::Tensor TrainStep::forward(Pass& pass, const Batch& part) const {
  const trace::Span span("forward");
  at::Tensor loss = task_.loss(model_, part, pass);
  check(loss.device() == device_ && loss.scalar_type() == at::kFloat,
        "the loss must be float32 on the device of the parameters");
  return loss;
}

// Leaves the gradients of the whole batch in params_, and the sum of all ranks' words in `word`.
// Returns the loss of the whole batch, () float64 on the device. `batch` is as after mixup.
at::Tensor TrainStep::backward(int64_t step, Batch batch, ControlWord& word) {
  Pass pass;
  pass.train = true;
  pass.precision = precision_;
  pass.seed = seed_;
  pass.step = step;
  pass.group = group_;
  const int64_t parts = config_.grad_accum_steps, n = batch.at("image").size(0) / parts;
  check(n * parts == batch.at("image").size(0), "{} parts of {} examples", parts,
        batch.at("image").size(0));
  if (group_) pass.first_example = group_->rank() * parts * n;
  // The mean over the batch is the mean of its equal parts' means.
  const double share = 1.0 / static_cast<double>(parts * (group_ ? group_->size() : 1));
  at::Tensor whole;
  SharedWord shared;
  params_.zero_grad();
  if (buckets_) buckets_->begin(parts);
  const UnitScope scope(model_, pass);
  for (int64_t part = 0; part < parts; ++part) {
    if (part > 0) pass.next_part(n);
    const at::Tensor loss = forward(pass, part_of(batch, part, parts));
    const at::Tensor own = loss.detach().to(at::kDouble).mul_(share);
    whole = part == 0 ? own : whole.add_(own);
    if (group_ && part + 1 == parts) shared.begin(*group_, whole, word);
    if (units_) units_->begin_gradients(/*add=*/part > 0);
    trace::Span span("backward");
    loss.backward(at::full({}, share, loss.options()));
    span.end();
    if (units_) units_->finish_gradients();
  }
  if (!group_) return whole;
  buckets_->finish();
  if (!device_.is_cpu()) group_->all_reduce_sum(whole, "loss").wait();
  shared.finish(whole, word);
  return whole;
}

StepScalars TrainStep::scalars() const {
  StepScalars scalars;
  scalars.count = count();
  scalars.lr = config_.groups.lr;
  for (const Schedule& schedule : config_.groups.schedules) {
    scalars.schedules.push_back(schedule(scalars.count));
  }
  if (config_.ema_decay) scalars.ema_decay = ema_decay_at(*config_.ema_decay, scalars.count);
  return scalars;
}

ControlWord TrainStep::run(int64_t step, Batch batch, bool measure, const ControlWord& word) {
  start();
  check(step == count() + 1, "step {} after {} updates", step, count());
  std::optional<c10::Event> uploaded;
  batch = upload(std::move(batch), uploaded);
  if (config_.mixup.p > 0) {
    const trace::Span span("mixup");
    const double a = mixup_coefficient(seed_, step, config_.mixup.p);
    Group* scope = config_.mixup.by_rank ? nullptr : group_;
    mix(batch.at("image"), a, "image", scope);
    mix(batch.at("labels"), a, "labels", scope);
  }
  ControlWord agreed = word;
  const at::Tensor loss = backward(step, std::move(batch), agreed);

  const trace::Span span("optimizer");
  StepScalars scalars = this->scalars();
  at::Tensor grads;
  if (config_.clip_norm > 0 || measure) {
    grads = squares();
    scalars.clip_norm = static_cast<float>(config_.clip_norm);
    scalars.grad_squares = grads;
  }
  const at::Tensor norms =
      config_.optimizer->update(params_, ranges_, scalars, config_.ema_decay ? &ema_ : nullptr);
  if (units_) units_->spread();
  if (config_.ema_decay) average_buffers(scalars.ema_decay);
  ++*count_.mutable_data_ptr<int64_t>();
  sum_over_ranks(norms, "norms");
  note(loss, grads, norms, measure);
  if (uploaded) uploaded->synchronize();
  return agreed;
}

// `loss` and `grads` (undefined: not asked for) are (), norms (2) float64 on the device.
void TrainStep::note(const at::Tensor& loss, const at::Tensor& grads, const at::Tensor& norms,
                     bool measure) {
  const at::Tensor all = at::cat(
      {loss.view(1), grads.defined() ? grads.view(1) : at::zeros_like(norms.narrow(0, 0, 1)),
       norms.flip(0)});  // loss, squares: gradients, updates, parameters
  if (!device_.is_cpu()) {
    if (!bad_.defined()) bad_ = at::zeros({4}, all.options().dtype(at::kBool));
    bad_.logical_or_(all.isfinite().logical_not_().logical_and_(bad_.any().logical_not()));
    if (!measure) return;
  }
  const at::Tensor host = all.cpu();
  const double* values = host.const_data_ptr<double>();
  const std::array found = {values[0], std::sqrt(values[1]), std::sqrt(values[2]),
                            std::sqrt(values[3] + frozen_squares_)};
  if (device_.is_cpu()) note_finite(found);
  if (measure) std::tie(loss_, l2_grads_, l2_updates_, l2_params_) = std::tuple_cat(found);
}

void TrainStep::note_finite(std::span<const double> values) {
  for (size_t i = 0; i < values.size() && non_finite_.empty(); ++i)
    if (!std::isfinite(values[i])) non_finite_ = kMeasured[i];
}

const std::string& TrainStep::non_finite() {
  if (bad_.defined() && non_finite_.empty()) {
    const at::Tensor host = bad_.cpu();
    for (int i = 0; i < 4 && non_finite_.empty(); ++i)
      if (host.const_data_ptr<bool>()[i]) non_finite_ = kMeasured[i];
  }
  return non_finite_;
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
    // In pieces: not all of it is there a third time.
    for (int64_t at = range.begin; at < range.end; at += kSwapped) {
      const int64_t length = std::min(kSwapped, range.end - at);
      const at::Tensor weights = params_.data().narrow(0, range.data + at - range.begin, length);
      const at::Tensor average = ema_.narrow(0, at, length), kept = weights.clone();
      weights.copy_(average);
      average.copy_(kept);
    }
  }
  if (units_) units_->spread();
  const c10::AutoGradMode no_grad(false);
  for (auto& [name, average_of] : ema_buffers_) {
    const auto own = std::find_if(buffers_.begin(), buffers_.end(),
                                  [&, &name = name](const auto& b) { return b.first == name; });
    const at::Tensor kept = own->second.clone();
    own->second.copy_(average_of);
    average_of.copy_(kept);
  }
}

// average = decay * average + (1 - decay) * buffer
void TrainStep::average_buffers(float decay) {
  const c10::AutoGradMode no_grad(false);
  size_t i = 0;
  for (const auto& [name, buffer] : buffers_) {
    if (buffer.scalar_type() == at::kFloat) ema_buffers_.at(i++).second.lerp_(buffer, 1.0F - decay);
  }
}

}  // namespace bv
