// muon: K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024). A
// kernel maps inputs to outputs. Let M be its average gradient as a matrix of inputs x outputs. The
// update is a matrix with the singular vectors of M and singular values near 1. Adam trains the
// other parameters.
//
// The Newton-Schulz iteration, which consists of matrix products, computes that matrix:
//   X = M / |M| with the Frobenius norm, then ns_steps times: A = X X^T, X = a X + (b A + c A^2) X
// With Jordan's a, b and c, small singular values grow fast. After 5 steps most are between 0.7 and
// 1.2. The update scale of match_rms_adamw follows J. Liu et al., "Muon is scalable for LLM
// training" (2025). torch.optim.Muon has the same two scales under the same names.
//
// A first pass turns the kernels' gradients into directions. Then one fused pass updates the
// kernels, and another one the other parameters. If the state is sharded over ranks, the first pass
// all-reduces the average gradient of each sharded kernel, and every rank computes the direction of
// the whole kernel.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "lib/model/kernels/float_products.h"
#include "lib/optim/adam.h"
#include "lib/optim/fused.h"
#include "lib/report/log.h"
#include "lib/util/pattern.h"

namespace bv {
namespace {

const KeyTable muon_keys(
    "optax: muon",
    {"Muon, which orthogonalizes the update of each kernel: all its singular values are then near "
     "1. Adam trains the other parameters and the kernels of `adam_for`. Muon can need fewer steps "
     "than Adam or SGD. Each step needs additional matrix products. With large batches they take a "
     "small fraction of the time. On a GPU these products always use bfloat16. The state takes as "
     "much memory as Adam's.",
     "momentum: 0.95\nns_steps: 5"},
    {{"adam_for", "list of string", "['(.*/)?(embedding|stem|head)/.*']",
      "Regular expressions of the names of kernels that Adam trains. By default these are the "
      "patch embedding (`stem` in Mixer) and the head. An expression must match the whole name. "
      "Adam also trains everything that is not a kernel: biases, norms, position embeddings."},
     {"momentum", "float 0..<1", "0.95",
      "For kernels, the decay rate of the average gradient. It must be below 1."},
     {"nesterov", "bool", "true", "For kernels, whether to use Nesterov momentum."},
     {"ns_steps", "int 1..20", "5",
      "Number of Newton-Schulz iterations that bring the singular values near 1. Fewer are faster "
      "but less exact; configs/cifar10_resnet.yaml uses 3."},
     {"adjust_lr", "'match_rms_adamw' | 'original'", "match_rms_adamw",
      "Scale of the updates, before `lr`. With `match_rms_adamw` their root mean square is about "
      "0.2, as with Adam, so that one `lr` suits both. With `original` the singular values are "
      "about sqrt(max(1, outputs / inputs)), as in Jordan's code. A good `lr` for that can be too "
      "large for what Adam trains; give it a lower rate with `lr_mults`, such as [['head/.*', "
      "0.15]]."},
     {"b1", "float 0..<1", "0.9",
      "For the other parameters, as in [scale_by_adam](#scale_by_adam). It must be below 1."},
     {"b2", "float 0..<1", "0.999",
      "For the other parameters, as in [scale_by_adam](#scale_by_adam). It must be below 1."},
     {"eps", "float > 0", "1e-8",
      "For the other parameters, as in [scale_by_adam](#scale_by_adam)."}});

// A kernel that Muon trains, or the kernels of several layers that are stacked.
struct Kernel {
  std::vector<int64_t> shape, strides;
  int64_t layers = 1;
  bool stacked = false;             // the first axis of `shape` counts layers
  int64_t inputs = 0, outputs = 0;  // of each layer's matrix
  // The part that this rank updates, in elements of the kernel's memory: all of it unless
  // `sharded`.
  bool sharded = false;
  int64_t first = 0, count = 0;
  at::Tensor grad = {},
             momentum = {};  // (count), views of the flat buffers; undefined if count is 0

  int64_t numel() const { return layers * inputs * outputs; }
  // Returns the matrix of a layer as a view of the kernel's whole memory, with the layer's shape.
  at::Tensor layer(const at::Tensor& memory, int64_t i) const {
    const at::Tensor all = memory.as_strided(shape, strides, memory.storage_offset());
    return stacked ? all.select(0, i) : all;
  }
};

// Returns the number of leading dimensions that are inputs: all but the last. Attention's kernels
// are (D, heads, D / heads) or (heads, D / heads, D), so with three dimensions it is the split that
// is nearer to a square matrix.
size_t input_dims(at::IntArrayRef shape) {
  if (shape.size() != 3) return shape.size() - 1;
  const auto imbalance = [](int64_t rows, int64_t columns) {
    return static_cast<double>(std::max(rows, columns)) / std::min(rows, columns);
  };
  const bool two =
      imbalance(shape[0] * shape[1], shape[2]) <= imbalance(shape[0], shape[1] * shape[2]);
  return two ? 2 : 1;
}

// Returns a b^T.
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() ? float_product(a, b) : at::mm(a, b.t());
}

// The Newton-Schulz iteration. `x` is (m, n) float32; the result has its shape. On a GPU the
// products are in bfloat16, as in Jordan's code.
at::Tensor orthogonalised(at::Tensor x, int64_t steps) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, kEps = 1e-7;
  const bool tall = x.size(0) > x.size(1);
  if (tall) x = x.t();
  x = x / (at::linalg_vector_norm(x) + kEps);
  if (x.is_cuda()) x = x.to(at::kBFloat16);
  for (int64_t i = 0; i < steps; ++i) {
    const at::Tensor squares = product(x, x);  // x x^T, which is symmetric
    const at::Tensor factor = squares * b + product(squares, squares) * c;
    x = x * a + product(factor, x.t());
  }
  return tall ? x.t() : x;
}

bool is_kernel(const FlatParams::Entry& entry) {
  const bool named = entry.name == "kernel" || entry.name.ends_with("/kernel");
  return named && entry.shape.size() >= (entry.stacked ? 3 : 2);
}

class Muon : public Optimizer {
 public:
  // The state names differ from Adam's, so that neither optimizer resumes from the other's state.
  explicit Muon(const Config& config)
      : Optimizer({{.name = "momentum"}, {.name = "nu"}}),
        names_given_(config.has("adam_for")),
        momentum_(read_decay(config, "momentum", 0.95)),
        nesterov_(config.get<bool>("nesterov", true)),
        ns_steps_(config.get<int64_t>("ns_steps", 5)),
        match_adamw_(config.word("adjust_lr", "match_rms_adamw", {"match_rms_adamw", "original"}) ==
                     "match_rms_adamw"),
        b1_(read_decay(config, "b1", 0.9)),
        b2_(read_decay(config, "b2", 0.999)),
        eps_(config.get<double>("eps", 1e-8)) {
    const std::vector<std::string> standard = {"(.*/)?(embedding|stem|head)/.*"};
    for (const std::string& text : config.get<std::vector<std::string>>("adam_for", standard)) {
      const std::string problem = Pattern::problem(text);
      if (problem.empty())
        adam_for_.emplace_back(text);
      else
        config.problem("adam_for", problem);
    }
    if (ns_steps_ < 1 || ns_steps_ > 20)
      config.problem("ns_steps", fmt::format("must be between 1 and 20, got {}", ns_steps_));
    if (!(static_cast<float>(eps_) > 0))
      config.problem("eps", fmt::format("must be positive in float32, got {}", eps_));
  }

  void allocate(const FlatParams& params, Group& group) override {
    Optimizer::allocate(params, group);
    group_ = &group;
    std::map<const FlatParams::Entry*, FlatParams::OwnedSlice> owned;
    for (const auto& slice : params.owned_slices()) {
      owned.emplace(slice.entry, slice);
      add_part(slice.state, slice.state + slice.count, trains(*slice.entry));
    }
    for (const FlatParams::Entry& entry : params.entries()) {
      if (entry.group == kFrozen || !trains(entry)) continue;
      const auto own = owned.find(&entry);
      kernels_.push_back(kernel_of(params, entry, own == owned.end() ? nullptr : &own->second));
    }
    if (kernels_.empty()) {
      throw Error(Exit::usage, "",
                  "optax_name: muon has nothing to do: no kernels are trained except those of "
                  "optax.adam_for; use 'optax_name: scale_by_adam'");
    }
    if (names_given_ && group.rank() == 0) warn_about_unused_patterns(params);
    list_work();
  }

  bool replaces_gradients() const override { return true; }

  RuleNumbers rule_numbers(int64_t count) const override { return adam_numbers(b1_, b2_, count); }

  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override {
    direct_all(scalars, params.data().is_cpu());
    StepScalars rest = scalars;
    rest.clip_norm = 0;  // the first pass has already clipped
    const at::Tensor sums =
        fused_update(FactorRule{1}, params, parts_of(ranges, /*muon=*/true), rest, ema);
    const auto b1 = static_cast<float>(b1_);
    const AdamRule<float, false> adam{.mu = slots()[0].flat.mutable_data_ptr<float>(),
                                      .nu = slots()[1].flat.mutable_data_ptr<float>(),
                                      .b1_stored = b1,
                                      .b1 = b1,
                                      .rest1 = static_cast<float>(1 - b1_),
                                      .b2 = static_cast<float>(b2_),
                                      .rest2 = static_cast<float>(1 - b2_),
                                      .eps = static_cast<float>(eps_),
                                      .eps_root = 0,
                                      .weight_decay = 0,
                                      .factor = 1};
    return sums + fused_update(adam, params, parts_of(ranges, /*muon=*/false), scalars, ema);
  }

 private:
  // Whether Muon trains the parameter.
  bool trains(const FlatParams::Entry& entry) const {
    return is_kernel(entry) &&
           std::ranges::none_of(adam_for_, [&](const Pattern& p) { return p.matches(entry.name); });
  }

  void warn_about_unused_patterns(const FlatParams& params) const {
    for (const Pattern& pattern : adam_for_) {
      const auto matches = [&](const auto& e) { return is_kernel(e) && pattern.matches(e.name); };
      if (std::ranges::none_of(params.entries(), matches))
        log::warn("optax.adam_for: the pattern '{}' matches no kernel", pattern.text());
    }
  }

  Kernel kernel_of(const FlatParams& params, const FlatParams::Entry& entry,
                   const FlatParams::OwnedSlice* own) const {
    Kernel k{.shape = entry.shape, .strides = entry.strides, .stacked = entry.stacked};
    at::IntArrayRef shape = k.shape;
    if (k.stacked) {
      k.layers = shape[0];
      shape = shape.slice(1);
    }
    k.inputs = c10::multiply_integers(shape.slice(0, input_dims(shape)));
    k.outputs = entry.numel / (k.layers * k.inputs);
    k.sharded = entry.segment >= 0;
    if (!own) return k;
    k.first = own->first;
    k.count = std::min(own->count, entry.numel - own->first);  // without the gap
    if (k.count <= 0) return k;
    k.grad = params.grads().narrow(0, own->grad, k.count);
    k.momentum = slots()[0].flat.narrow(0, own->state, k.count);
    return k;
  }

  // Fills work_, the largest matrices first: threads that take one after the other then finish at
  // about the same time.
  void list_work() {
    for (const Kernel& k : kernels_) {
      for (int64_t i = 0; i < k.layers && !k.sharded; ++i) work_.push_back({&k, i});
    }
    std::ranges::stable_sort(work_, std::greater(), [](const Work& work) {
      const auto [in, out] = std::pair(work.kernel->inputs, work.kernel->outputs);
      return in * out * std::min(in, out);
    });
  }

  // Turns the gradients of all kernels into directions.
  void direct_all(const StepScalars& scalars, bool cpu) const {
    for (const Kernel& k : kernels_) {
      if (k.count > 0) average(k, scalars);
    }
    std::atomic<size_t> next = 0;
    const auto take = [&](int64_t, int64_t) {
      for (size_t i = next++; i < work_.size(); i = next++)
        direct(*work_[i].kernel, work_[i].kernel->grad, work_[i].layer);
    };
    // One thread computes a matrix, so its sums do not depend on the number of threads.
    if (cpu)
      at::parallel_for(0, at::get_num_threads(), 1, take);
    else
      take(0, 1);
    for (const Kernel& k : kernels_) {
      if (k.sharded) direct_sharded(k);
    }
  }

  // Updates the average gradient and overwrites the gradient with it. With `nesterov`, it writes
  // the average one step ahead.
  void average(const Kernel& k, const StepScalars& scalars) const {
    clip_to_norm(k.grad, scalars);
    k.momentum.lerp_(k.grad, 1 - momentum_);
    if (nesterov_)
      k.grad.lerp_(k.momentum, momentum_);
    else
      k.grad.copy_(k.momentum);
  }

  // Turns a layer's average gradient into its direction, in place. `memory` is the whole kernel's.
  void direct(const Kernel& k, const at::Tensor& memory, int64_t layer) const {
    const double in = static_cast<double>(k.inputs), out = static_cast<double>(k.outputs);
    const double scale =
        match_adamw_ ? 0.2 * std::sqrt(std::max(in, out)) : std::sqrt(std::max(1.0, out / in));
    const at::Tensor matrix = k.layer(memory, layer);
    const at::Tensor x = orthogonalised(matrix.reshape({k.inputs, k.outputs}), ns_steps_);
    matrix.copy_((x * scale).reshape(matrix.sizes()));
  }

  void direct_sharded(const Kernel& k) const {
    const at::Tensor whole = at::zeros({k.numel()}, slots()[0].flat.options());
    if (k.count > 0) whole.narrow(0, k.first, k.count).copy_(k.grad);
    group_->all_reduce_sum(whole, "muon").wait();
    for (int64_t i = 0; i < k.layers; ++i) direct(k, whole, i);
    if (k.count > 0) k.grad.copy_(whole.narrow(0, k.first, k.count));
  }

  // Adds a range of the state buffers to parts_.
  void add_part(int64_t begin, int64_t end, bool muon) {
    if (!parts_.empty() && parts_.back().end == begin && parts_.back().muon == muon)
      parts_.back().end = end;
    else
      parts_.push_back({begin, end, muon});
  }

  // Returns the parts of `ranges` that Muon trains or, if `muon` is false, those that Adam trains.
  std::vector<UpdateRange> parts_of(std::span<const UpdateRange> ranges, bool muon) const {
    std::vector<UpdateRange> all;
    for (const UpdateRange& range : ranges) {
      for (const Part& part : parts_) {
        const int64_t begin = std::max(part.begin, range.begin),
                      end = std::min(part.end, range.end);
        if (part.muon != muon || begin >= end) continue;
        UpdateRange both = range;
        both.begin = begin;
        both.end = end;
        both.data += begin - range.begin;
        both.grad += begin - range.begin;
        all.push_back(both);
      }
    }
    return all;
  }

  Group* group_ = &Group::single();
  std::vector<Pattern> adam_for_;
  bool names_given_;
  double momentum_;
  bool nesterov_;
  int64_t ns_steps_;
  bool match_adamw_;
  double b1_, b2_, eps_;
  std::vector<Kernel> kernels_;
  struct Work {
    const Kernel* kernel;
    int64_t layer;
  };
  std::vector<Work> work_;  // the matrices that are not sharded
  struct Part {
    int64_t begin, end;  // in the state buffers, with the gaps after parameters
    bool muon;           // whether Muon trains it
  };
  std::vector<Part> parts_;  // all that this rank updates, in the order of the buffers
};
const Register<Optimizer, Muon> registered_muon("muon");

}  // namespace
}  // namespace bv
