#include "lib/train/step.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "lib/train/fused.h"

namespace bv {
namespace {

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named_parameters(model)) names.push_back(name);
  return names;
}

std::optional<double> read_ema(const Config& config) {
  if (!config.has("ema")) return std::nullopt;
  const Config ema = config.section("ema");
  const auto decay = ema.get<double>("decay");
  if (!(decay >= 0 && decay < 1)) {
    ema.problem("decay", fmt::format("must be at least 0 and below 1, got {}", decay));
  }
  ema.done();
  return decay;
}

double read_clip_norm(const Config& config) {
  const auto norm = config.get<double>("grad_clip_norm", 0.0);
  if (!(norm >= 0)) {
    config.problem("grad_clip_norm", fmt::format("must not be negative, got {}", norm));
  }
  if (config.get<double>("grad_clip_per_example", 0.0) != 0) {
    config.problem("grad_clip_per_example",
                   "needs gradients per example, which no task gives; use grad_clip_norm");
  }
  return norm;
}

int64_t read_bucket_bytes(const Config& config) {
  const auto megabytes = config.get<double>("bucket_mb", 25.0);
  if (!(megabytes > 0 && megabytes <= 1e6))
    config.problem("bucket_mb", fmt::format("must be positive, in MiB, got {}", megabytes));
  return static_cast<int64_t>(std::clamp(megabytes, 1e-3, 1e6) * 0x1p20);
}

// Averages start at the initial weights; a short memory at first lets them leave these soon.
float ema_decay_at(double decay, int64_t count) {
  const auto t = static_cast<double>(count);
  return static_cast<float>(std::min(decay, (1.0 + t) / (10.0 + t)));
}

}  // namespace

StepConfig read_step(const Config& config, const Model& model, const RunLength& length) {
  StepConfig step;
  bool good = attempt(config, [&] {
    const auto name = config.get<std::string>("optax_name");
    step.optimizer =
        Optimizer::Registry::make(name, config.section("optax"), config.place("optax_name"));
  });
  good &= attempt(config, [&] { step.ema_decay = read_ema(config); });
  good &= attempt(config, [&] { step.groups = read_groups(config, names_of(model), length); });
  step.clip_norm = read_clip_norm(config);
  step.mixup = read_mixup(config.section("mixup"));
  step.bucket_bytes = read_bucket_bytes(config);
  if (!good) throw_problems(config);
  return step;
}

TrainStep::TrainStep(Model& model, const Task& task, StepConfig config, uint64_t seed,
                     Precision precision, dist::Group* group)
    : model_(model),
      task_(task),
      config_(std::move(config)),
      seed_(seed),
      precision_(precision),
      group_(group && group->size() > 1 ? group : nullptr),
      params_(model, config_.groups.group_of),
      ranges_(update_ranges(config_.groups, params_)),
      count_(at::zeros({}, at::kLong)),
      buffers_(named_buffers(model)) {
  config_.optimizer->allocate(params_);
  if (group_) buckets_ = std::make_unique<GradientBuckets>(params_, *group_, config_.bucket_bytes);
  if (!config_.ema_decay) return;
  ema_ = params_.new_buffer(at::kFloat);
  for (const auto& [name, buffer] : buffers_) {
    if (buffer.scalar_type() == at::kFloat) ema_buffers_.emplace_back(name, at::zeros_like(buffer));
  }
}

int64_t TrainStep::count() const { return *count_.const_data_ptr<int64_t>(); }

// The weights are final only now: they may have been initialised or loaded since construction.
void TrainStep::start() {
  if (started_) return;
  started_ = true;
  const int64_t trainable = params_.trainable();
  frozen_squares_ =
      square_sum(params_.data().const_data_ptr<float>() + trainable, params_.size() - trainable);
  if (!config_.ema_decay || count() > 0) return;
  ema_.copy_(params_.data().narrow(0, 0, trainable));
  average_buffers(0.0F);
}

// Leaves the gradients of the whole batch in params_, and the sum of all ranks' words in `word`.
// Returns the loss of the whole batch. `batch` is as after mixup.
double TrainStep::backward(int64_t step, Batch batch, ControlWord& word) {
  Pass pass;
  pass.train = true;
  pass.precision = precision_;
  pass.seed = seed_;
  pass.step = step;
  pass.group = group_;
  if (group_) pass.first_example = group_->rank() * batch.at("image").size(0);
  const at::Tensor loss = task_.loss(model_, batch, pass);
  check(loss.is_cpu() && loss.scalar_type() == at::kFloat, "the loss must be float32 on the CPU");
  // On the CPU a value is read from memory, without an operator call.
  const double own_loss = *loss.const_data_ptr<float>();
  params_.zero_grad();
  if (!group_) {
    loss.backward();
    return own_loss;
  }
  // The mean over the batch is the mean of its equal parts' means.
  const double share = 1.0 / group_->size();
  const at::Tensor shared = at::empty({1 + std::ssize(word)}, at::kDouble);
  auto* values = shared.mutable_data_ptr<double>();
  values[0] = own_loss * share;
  std::copy(word.begin(), word.end(), values + 1);
  auto control = group_->all_reduce_sum(shared, "control word");
  buckets_->begin();
  loss.backward(at::full({}, share, at::kFloat));
  buckets_->finish();
  control.wait();
  std::copy(values + 1, values + 1 + word.size(), word.begin());
  return values[0];
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
  if (config_.mixup.p > 0) {
    const double a = mixup_coefficient(seed_, step, config_.mixup.p);
    dist::Group* scope = config_.mixup.by_rank ? nullptr : group_;
    mix(batch.at("image"), a, "image", scope);
    mix(batch.at("labels"), a, "labels", scope);
  }
  ControlWord agreed = word;
  const double loss = backward(step, std::move(batch), agreed);

  StepScalars scalars = this->scalars();
  double grad_norm = 0;
  if (config_.clip_norm > 0 || measure) {
    grad_norm = std::sqrt(square_sum(params_.grads().const_data_ptr<float>(), params_.trainable()));
    scalars.clip_norm = static_cast<float>(config_.clip_norm);
    scalars.grad_norm = static_cast<float>(grad_norm);
  }
  const UpdateSums sums =
      config_.optimizer->update(params_, ranges_, scalars, config_.ema_decay ? &ema_ : nullptr);
  if (config_.ema_decay) average_buffers(scalars.ema_decay);
  ++*count_.mutable_data_ptr<int64_t>();

  const double l2_updates = std::sqrt(sums.updates);
  const double l2_params = std::sqrt(sums.params + frozen_squares_);
  note_finite("training_loss", loss);
  note_finite("l2_grads", grad_norm);
  note_finite("l2_updates", l2_updates);
  note_finite("l2_params", l2_params);
  if (measure) {
    loss_ = loss;
    l2_grads_ = grad_norm;
    l2_updates_ = l2_updates;
    l2_params_ = l2_params;
  }
  return agreed;
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

void TrainStep::note_finite(const char* name, double value) {
  if (non_finite_.empty() && !std::isfinite(value)) non_finite_ = name;
}

// All that a checkpoint holds, by name: what is in use, or copies.
TrainStep::Views TrainStep::views(bool copies) const {
  const auto take = [&](const at::Tensor& tensor) { return copies ? tensor.clone() : tensor; };
  Views all = params_.views(take(params_.data()), "params/");
  const auto append = [&](const Views& more) { all.insert(all.end(), more.begin(), more.end()); };
  all.emplace_back("opt/count", take(count_));
  for (const Optimizer::Slot& slot : config_.optimizer->slots()) {
    append(params_.views(take(slot.flat), "opt/" + slot.name + "/"));
  }
  for (const auto& [name, tensor] : config_.optimizer->other_state())
    all.emplace_back("opt/" + name, take(tensor));
  for (const auto& [name, buffer] : buffers_) all.emplace_back("buffers/" + name, take(buffer));
  if (config_.ema_decay) append(params_.views(take(ema_), "ema/"));
  for (const auto& [name, buffer] : ema_buffers_) all.emplace_back("ema/" + name, take(buffer));
  return all;
}

NamedTensors TrainStep::state() {
  start();
  NamedTensors all;
  for (auto& [name, tensor] : views(/*copies=*/true)) all.emplace(name, tensor);
  return all;
}

void TrainStep::load_state(const NamedTensors& from, const std::string& origin) {
  copy_in(views(/*copies=*/false), from, {"params/", "opt/", "buffers/", "ema/"}, origin);
  started_ = false;
}

void TrainStep::share_state() {
  if (!group_) return;
  std::vector<at::Tensor> all = {params_.data(), count_};
  for (const Optimizer::Slot& slot : config_.optimizer->slots()) all.push_back(slot.flat);
  for (const auto& [name, tensor] : config_.optimizer->other_state()) all.push_back(tensor);
  for (const auto& [name, buffer] : buffers_) all.push_back(buffer);
  if (config_.ema_decay) all.push_back(ema_);
  for (const auto& [name, buffer] : ema_buffers_) all.push_back(buffer);
  for (const at::Tensor& tensor : all) group_->broadcast(tensor.detach(), 0, "state");
  started_ = false;
}

std::unique_ptr<TrainStep::EmaScope> TrainStep::use_ema() {
  check(config_.ema_decay.has_value(), "no averaged weights are kept");
  start();
  return std::make_unique<EmaScope>(*this);
}

void TrainStep::swap_ema() {
  float* weights = params_.data().mutable_data_ptr<float>();
  float* average = ema_.mutable_data_ptr<float>();
  at::parallel_for(0, params_.trainable(), kChunk, [&](int64_t begin, int64_t end) {
    std::swap_ranges(weights + begin, weights + end, average + begin);
  });
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
