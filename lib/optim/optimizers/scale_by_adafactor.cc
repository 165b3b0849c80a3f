// scale_by_adafactor, big_vision.scale_by_adafactor: optax.py `scale_by_adafactor` of big_vision,
// which is Adafactor (Shazeer and Stern 2018) without parameter scaling and relative step sizes,
// and with a cap on the second moment's decay.
//
// A parameter with two or more dimensions, the second largest of at least min_dim_size_to_factor,
// stores its second moments as two means: v_row (over the largest dimension) and v_col (over the
// second largest). Other parameters store them in full (v). A first pass turns gradients into
// directions, one parameter at a time; a second, fused pass applies the momentum.
//
// If gradients are sharded over ranks, the first pass gathers the full gradients, one parameter at
// a time. The second moments are replicated on all ranks.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "lib/optim/fused.h"

namespace bv {
namespace {

constexpr TableText kAdafactorText = {
    "Adafactor, which behaves like Adam with less memory: it keeps the average squared gradients "
    "of a matrix as one number per row and one per column. With momentum in bfloat16, its state "
    "takes "
    "about 2 bytes per weight, Adam's 8. It suits large transformers.",
    "beta2_cap: 0.95", "optax.py scale_by_adafactor"};
constexpr KeyText kAdafactorKeys[] = {
    {"min_dim_size_to_factor", "int", "32",
     "An array of weights keeps one number per row and one per column if its two largest "
     "dimensions have "
     "at least this size. Other arrays, such as biases, keep a number per weight, as in Adam."},
    {"decay_rate", "float > 0", "0.8",
     "Exponent in the decay rate of the average squared gradient, which in step t is 1 - "
     "t^-decay_rate, but at most `beta2_cap`."},
    {"beta2_cap", "float 0<..<1", "0.999",
     "Maximum decay rate of the average squared gradient, like `b2` of Adam. It must be above 0 "
     "and below 1. A value of 0.95 makes long runs of large transformers more stable."},
    {"decay_offset", "int", "0",
     "Number of steps before the decay rate begins to rise (see `decay_rate`); until then it stays "
     "at the value of the first step. If a run continues another one with `resume`, set this to "
     "the other run's number of steps to start the rise again."},
    {"clipping_threshold", "float > 0", "none",
     "Maximum root mean square of the update of one array of weights, before `lr`: a larger update "
     "is scaled down to it. By default there is no limit; 1 is a usual value.",
     "1.0"},
    {"momentum", "float 0..<1", "0.9",
     "Decay rate of the average update. It must be below 1. With 0 or null there is no average, "
     "which saves its memory; the default is 0.9."},
    {"dtype_momentum", "'float32' | 'bfloat16'", "bfloat16",
     "Data type of the stored average update. `float32` doubles its memory, by 2 bytes per weight, "
     "and is more precise. With null it is `float32`."},
    {"eps", "float > 0", "1e-30",
     "Added to squared gradients, so that gradients of zero cause no division by zero."}};
const KeyTable scale_by_adafactor_short_name_keys("optax: scale_by_adafactor", kAdafactorText, {},
                                                  kAdafactorKeys);
const KeyTable scale_by_adafactor_full_name_keys("optax: big_vision.scale_by_adafactor",
                                                 kAdafactorText, {}, kAdafactorKeys);

// Returns the axes of the largest and the second largest dimension. If dimensions are equal, the
// last one counts as the largest.
std::pair<int64_t, int64_t> largest_axes(at::IntArrayRef shape) {
  std::vector<int64_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_sort(axes.begin(), axes.end(),
                   [&](int64_t a, int64_t b) { return shape[a] < shape[b]; });
  return {axes[axes.size() - 1], axes[axes.size() - 2]};
}

// The decay of the second moments, in device memory.
struct MomentDecay {
  at::Tensor old, fresh;  // (), float32: the decay, and 1 - decay

  // average = decay * average + (1 - decay) * value
  void average(const at::Tensor& average, const at::Tensor& value) const {
    if (average.is_cpu()) {
      average.mul_(*old.const_data_ptr<float>()).add_(value, *fresh.const_data_ptr<float>());
    } else {
      average.mul_(old).addcmul_(value, fresh);
    }
  }
};

// The second moments of one parameter, and its gradient.
struct Moments {
  std::string name;
  at::Tensor grad;  // view of the full gradient; undefined if it is sharded
  std::vector<int64_t> shape, strides;
  int64_t first = 0, count = 0;  // this rank's elements of a sharded gradient
  at::Tensor shard;              // (count)
  bool factored = false;
  int64_t d0 = 0, d1 = 0;  // axes of the largest and the second largest dimension
  at::Tensor row, col;     // factored: means over d0 and over d1, which keep size 1
  at::Tensor v;            // not factored: in the parameter's shape

  // Averages the squares of grad; then grad becomes grad / sqrt(second moment).
  void normalise(const at::Tensor& grad, const MomentDecay& b2, double eps) const {
    const at::Tensor squares = grad * grad + eps;
    if (!factored) {
      b2.average(v, squares);
      grad.mul_(v.rsqrt());
      return;
    }
    b2.average(row, at::mean(squares, d0, /*keepdim=*/true));
    b2.average(col, at::mean(squares, d1, /*keepdim=*/true));
    grad.mul_((row / at::mean(row, d1, /*keepdim=*/true)).rsqrt_()).mul_(col.rsqrt());
  }
  // grad / max(1, rms(grad) / threshold)
  static void clip(const at::Tensor& grad, double threshold) {
    if (!grad.is_cpu()) {  // do not wait for the device
      grad.div_(((grad * grad).mean().sqrt() / threshold).clamp_min(1));
      return;
    }
    const double rms = std::sqrt((grad * grad).mean().item<double>());
    if (rms > threshold) grad.div_(rms / threshold);
  }
};

// An explicit null disables momentum, like None in big_vision.
double read_momentum(const Config& config) {
  return config.keep_null("momentum") ? 0.0 : config.get<double>("momentum", 0.9);
}

// An explicit null is float32, like None in big_vision.
bool momentum_in_bf16(const Config& config) {
  return !config.keep_null("dtype_momentum") &&
         config.word("dtype_momentum", "bfloat16", {"float32", "bfloat16"}) == "bfloat16";
}

class ScaleByAdafactor : public Optimizer {
 public:
  explicit ScaleByAdafactor(const Config& config)
      : ScaleByAdafactor(config, read_momentum(config)) {}

  void allocate(const FlatParams& params, Group& group) override {
    Optimizer::allocate(params, group);
    group_ = &group;
    std::map<const FlatParams::Entry*, FlatParams::Slice> slices;
    for (const auto& slice : params.slices(FlatParams::BufferKind::grads))
      slices.emplace(slice.entry, slice);
    for (const FlatParams::Entry& entry : params.entries()) {
      if (entry.group == kFrozen) continue;
      Moments m = moments_of(entry, params.grads().options());
      const auto found = slices.find(&entry);
      if (found != slices.end() && found->second.whole) {
        m.grad = params.grads().as_strided(entry.shape, entry.strides,
                                           params.grads().storage_offset() + found->second.offset);
      } else if (found != slices.end()) {
        m.first = found->second.first;
        m.count = found->second.count;
        m.shard = params.grads().narrow(0, found->second.offset, m.count);
      }
      moments_.push_back(std::move(m));
    }
  }

  bool replaces_gradients() const override { return true; }

  Named other_state() const override {
    Named all;
    for (const Moments& m : moments_) {
      if (m.factored) {
        all.emplace_back("v_row/" + m.name, m.row.squeeze(m.d0));
        all.emplace_back("v_col/" + m.name, m.col.squeeze(m.d1));
      } else {
        all.emplace_back("v/" + m.name, m.v);
      }
    }
    return all;
  }

  int64_t other_elements(at::IntArrayRef shape) const override {
    const int64_t all = c10::multiply_integers(shape);
    if (!is_factored(shape)) return all;
    const auto [d0, d1] = largest_axes(shape);
    return all / shape[d0] + all / shape[d1];
  }

  RuleNumbers rule_numbers(int64_t count) const override {
    const double t = std::max<double>(1, static_cast<double>(count - decay_offset_ + 1));
    const double b2 = std::min(beta2_cap_, 1 - std::pow(t, -decay_rate_));
    return {static_cast<float>(b2), static_cast<float>(1 - b2)};
  }

  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override {
    constexpr int64_t kRule = FusedNumbers::kRulePlace;
    const MomentDecay b2{scalars.numbers[kRule], scalars.numbers[kRule + 1]};
    // One thread per parameter, so that sums do not depend on the number of threads.
    const auto direct_range = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (moments_[i].grad.defined()) direct(moments_[i], moments_[i].grad, scalars, b2);
      }
    };
    if (params.data().is_cpu())
      at::parallel_for(0, std::ssize(moments_), 1, direct_range);
    else
      direct_range(0, std::ssize(moments_));
    for (const Moments& m : moments_) {
      if (m.grad.defined()) continue;
      const at::Tensor flat = at::zeros({numel(m)}, params.grads().options());
      if (m.count > 0) flat.narrow(0, m.first, m.count).copy_(m.shard);
      group_->all_reduce_sum(flat, "adafactor").wait();
      direct(m, flat.as_strided(m.shape, m.strides), scalars, b2);
      if (m.count > 0) at::Tensor(m.shard).copy_(flat.narrow(0, m.first, m.count));
    }
    StepScalars rest = scalars;
    rest.clip_norm = 0;
    if (momentum_ == 0) return fused_update(FactorRule{1}, params, ranges, rest, ema);
    const auto decay = static_cast<float>(momentum_);
    const auto gain = static_cast<float>(1 - momentum_);
    const at::Tensor& average = slots()[0].flat;
    if (average.scalar_type() == at::kFloat) {
      const AverageRule<float> rule{average.mutable_data_ptr<float>(), decay, gain};
      return fused_update(rule, params, ranges, rest, ema);
    }
    const AverageRule<Bf16> rule{static_cast<Bf16*>(average.mutable_data_ptr()),
                                 static_cast<float>(c10::BFloat16(decay)), gain};
    return fused_update(rule, params, ranges, rest, ema);
  }

 private:
  ScaleByAdafactor(const Config& config, double momentum)
      : Optimizer(momentum == 0 ? std::vector<Slot>{} : std::vector<Slot>{{.name = "mu"}}),
        min_dim_(config.get<int64_t>("min_dim_size_to_factor", 32)),
        decay_rate_(config.get<double>("decay_rate", 0.8)),
        decay_offset_(config.get<int64_t>("decay_offset", 0)),
        beta2_cap_(config.get<double>("beta2_cap", 0.999)),
        threshold_(config.maybe<double>("clipping_threshold")),
        momentum_(momentum),
        eps_(config.get<double>("eps", 1e-30)) {
    const bool bf16 = momentum_in_bf16(config);
    if (momentum_ != 0 && bf16) set_slot_dtype(0, at::kBFloat16);
    const auto need = [&](bool good, const char* key, const char* why) {
      if (!good) config.problem(key, why);
    };
    need(momentum_ >= 0 && momentum_ < 1, "momentum", "must be at least 0 and below 1");
    need(decay_rate_ > 0, "decay_rate", "must be positive");
    need(beta2_cap_ > 0 && beta2_cap_ < 1, "beta2_cap", "must be between 0 and 1");
    need(!threshold_ || *threshold_ > 0, "clipping_threshold", "must be positive");
    if (!(static_cast<float>(eps_) > 0))
      config.problem("eps", fmt::format("must be positive in float32, got {}", eps_));
  }

  bool is_factored(at::IntArrayRef shape) const {
    return shape.size() >= 2 && shape[largest_axes(shape).second] >= min_dim_;
  }
  Moments moments_of(const FlatParams::Entry& entry, const at::TensorOptions& options) const {
    const std::vector<int64_t>& shape = entry.shape;
    Moments m;
    m.name = entry.name;
    m.shape = shape;
    m.strides = entry.strides;
    if (shape.size() >= 2) std::tie(m.d0, m.d1) = largest_axes(shape);
    m.factored = is_factored(shape);
    if (m.factored) {
      std::vector<int64_t> row = shape, col = shape;
      row[m.d0] = col[m.d1] = 1;
      m.row = at::zeros(row, options);
      m.col = at::zeros(col, options);
    } else {
      m.v = at::empty_strided(shape, entry.strides, options).zero_();
    }
    return m;
  }
  static int64_t numel(const Moments& m) {
    int64_t elements = 1;
    for (const int64_t size : m.shape) elements *= size;
    return elements;
  }
  // Turns the full gradient of a parameter into its direction, in place.
  void direct(const Moments& m, const at::Tensor& grad, const StepScalars& scalars,
              const MomentDecay& b2) const {
    clip_to_norm(grad, scalars);
    m.normalise(grad, b2, eps_);
    if (threshold_) Moments::clip(grad, *threshold_);
  }

  Group* group_ = &Group::single();
  int64_t min_dim_;
  double decay_rate_;
  int64_t decay_offset_;
  double beta2_cap_;
  std::optional<double> threshold_;
  double momentum_;
  double eps_;
  std::vector<Moments> moments_;
};
const Register<Optimizer, ScaleByAdafactor> registered_scale_by_adafactor("scale_by_adafactor");
const Register<Optimizer, ScaleByAdafactor> registered_scale_by_adafactor_full_name(
    "big_vision.scale_by_adafactor");

}  // namespace
}  // namespace bv
