// scale_by_adafactor: Adafactor (Shazeer and Stern 2018) as big_vision has it: no parameter scale,
// no relative step, a capped second-moment decay (reference 6.1).
//   optax: {min_dim_size_to_factor: 32, decay_rate: 0.8, decay_offset: 0, beta2_cap: 0.999,
//           clipping_threshold: null, momentum: 0.9, dtype_momentum: bfloat16, eps: 1e-30}
//
// A parameter of rank >= 2 whose second largest dimension is at least min_dim_size_to_factor keeps
// its second moments as two means, v_row (without the largest dimension) and v_col (without the
// second largest); others keep v. The first pass turns the gradients into directions, parameter by
// parameter; the second is the fused one, with the momentum.
//
// Where ranks have parts of gradients only, each parameter's is put together for its first pass,
// one parameter at a time. The second moments are on all ranks.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "lib/optim/fused.h"

namespace bv {
namespace {

// The axes of the largest and the second largest dimension; equal ones keep their order.
std::pair<int64_t, int64_t> largest_axes(at::IntArrayRef shape) {
  std::vector<int64_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_sort(axes.begin(), axes.end(),
                   [&](int64_t a, int64_t b) { return shape[a] < shape[b]; });
  return {axes[axes.size() - 1], axes[axes.size() - 2]};
}

// Second moments of one parameter.
struct Moments {
  std::string name;
  at::Tensor grad;  // the parameter's place in the gradients; undefined where it is not whole
  std::vector<int64_t> shape, strides;
  int64_t first = 0, count = 0;  // this rank's part of it, in elements
  at::Tensor part;               // (count)
  bool factored = false;
  int64_t d0 = 0, d1 = 0;  // largest and second largest axis
  at::Tensor row, col;     // factored: means of squares over d0 and d1, kept as size 1
  at::Tensor v;            // otherwise: as the parameter

  // Squares are averaged with decay b2; grad becomes grad / sqrt(second moment).
  void normalise(const at::Tensor& grad, double b2, double eps) const {
    const at::Tensor squares = grad * grad + eps;
    if (!factored) {
      v.mul_(b2).add_(squares, 1 - b2);
      grad.mul_(v.rsqrt());
      return;
    }
    row.mul_(b2).add_(at::mean(squares, d0, /*keepdim=*/true), 1 - b2);
    col.mul_(b2).add_(at::mean(squares, d1, /*keepdim=*/true), 1 - b2);
    grad.mul_((row / at::mean(row, d1, /*keepdim=*/true)).rsqrt_()).mul_(col.rsqrt());
  }
  // grad / max(1, rms(grad) / threshold)
  static void clip(const at::Tensor& grad, double threshold) {
    if (!grad.is_cpu()) {  // without reading it back
      grad.div_(((grad * grad).mean().sqrt() / threshold).clamp_min(1));
      return;
    }
    const double rms = std::sqrt((grad * grad).mean().item<double>());
    if (rms > threshold) grad.div_(rms / threshold);
  }
};

// An explicit null switches it off, as None does in the seed.
double read_momentum(const Config& config) {
  const std::vector<std::string> keys = config.keys();
  const bool given = std::find(keys.begin(), keys.end(), "momentum") != keys.end();
  return given && !config.has("momentum") ? 0.0 : config.get<double>("momentum", 0.9);
}

class ScaleByAdafactor : public Optimizer {
 public:
  explicit ScaleByAdafactor(const Config& config)
      : ScaleByAdafactor(config, read_momentum(config)) {}

  void allocate(const FlatParams& params, Group* group) override {
    Optimizer::allocate(params, group);
    group_ = group;
    std::map<const FlatParams::Entry*, FlatParams::Stretch> places;
    for (const auto& stretch : params.stretches(FlatParams::Space::grads))
      places.emplace(stretch.entry, stretch);
    for (const FlatParams::Entry& entry : params.entries()) {
      if (entry.group == kFrozen) continue;
      Moments m = moments_of(entry, params.grads().options());
      const auto found = places.find(&entry);
      if (found != places.end() && found->second.whole) {
        m.grad = params.grads().as_strided(entry.shape, entry.strides,
                                           params.grads().storage_offset() + found->second.at);
      } else if (found != places.end()) {
        m.first = found->second.first;
        m.count = found->second.count;
        m.part = params.grads().narrow(0, found->second.at, m.count);
      }
      moments_.push_back(std::move(m));
    }
  }

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

  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override {
    const double t = std::max<double>(1, static_cast<double>(scalars.count - decay_offset_ + 1));
    const double b2 = std::min(beta2_cap_, 1 - std::pow(t, -decay_rate_));
    // Each parameter by one thread: sums do not depend on the number of threads.
    const auto direct_some = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (moments_[i].grad.defined()) direct(moments_[i], moments_[i].grad, scalars, b2);
      }
    };
    if (params.data().is_cpu())
      at::parallel_for(0, std::ssize(moments_), 1, direct_some);
    else
      direct_some(0, std::ssize(moments_));
    for (const Moments& m : moments_) {
      if (m.grad.defined()) continue;
      const at::Tensor flat = at::zeros({numel(m)}, params.grads().options());
      if (m.count > 0) flat.narrow(0, m.first, m.count).copy_(m.part);
      group_->all_reduce_sum(flat, "adafactor").wait();
      direct(m, flat.as_strided(m.shape, m.strides), scalars, b2);
      if (m.count > 0) at::Tensor(m.part).copy_(flat.narrow(0, m.first, m.count));
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
    const bool bf16 =
        config.word("dtype_momentum", "bfloat16", {"float32", "bfloat16"}) == "bfloat16";
    if (momentum_ != 0 && bf16) set_slot_dtype(0, at::kBFloat16);
    const auto need = [&](bool good, const char* key, const char* why) {
      if (!good) config.problem(key, why);
    };
    need(momentum_ >= 0 && momentum_ < 1, "momentum", "must be at least 0 and below 1");
    need(decay_rate_ > 0, "decay_rate", "must be positive");
    need(beta2_cap_ > 0 && beta2_cap_ < 1, "beta2_cap", "must be between 0 and 1");
    need(!threshold_ || *threshold_ > 0, "clipping_threshold", "must be positive");
    need(eps_ >= 0, "eps", "must not be negative");
  }

  Moments moments_of(const FlatParams::Entry& entry, const at::TensorOptions& options) const {
    const std::vector<int64_t>& shape = entry.shape;
    Moments m;
    m.name = entry.name;
    m.shape = shape;
    m.strides = entry.strides;
    if (shape.size() >= 2) std::tie(m.d0, m.d1) = largest_axes(shape);
    m.factored = shape.size() >= 2 && shape[m.d1] >= min_dim_;
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
  // From the gradient of a whole parameter to its direction, in place.
  void direct(const Moments& m, const at::Tensor& grad, const StepScalars& scalars,
              double b2) const {
    if (scalars.clip_norm > 0) clip_to_norm(grad, scalars);
    m.normalise(grad, b2, eps_);
    if (threshold_) Moments::clip(grad, *threshold_);
  }

  static void clip_to_norm(const at::Tensor& grad, const StepScalars& scalars) {
    if (grad.is_cpu()) {
      const auto norm =
          static_cast<float>(std::sqrt(*scalars.grad_squares.const_data_ptr<double>()));
      if (!(norm < scalars.clip_norm)) grad.div_(norm).mul_(scalars.clip_norm);
      return;
    }
    const at::Tensor norm = scalars.grad_squares.sqrt().to(at::kFloat);
    grad.copy_(at::where(norm < scalars.clip_norm, grad, grad / norm * scalars.clip_norm));
  }

  Group* group_ = nullptr;
  int64_t min_dim_;
  double decay_rate_;
  int64_t decay_offset_;
  double beta2_cap_;
  std::optional<double> threshold_;
  double momentum_;
  double eps_;
  std::vector<Moments> moments_;
};
const Register<Optimizer, ScaleByAdafactor> registered("scale_by_adafactor");
const Register<Optimizer, ScaleByAdafactor> registered_seed_name("big_vision.scale_by_adafactor");

}  // namespace
}  // namespace bv
