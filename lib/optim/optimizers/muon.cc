// muon: K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024). A
// kernel is seen as a matrix M from inputs to outputs. Its average gradient is replaced by a matrix
// with the same singular vectors, whose singular values are near 1. Adam trains all other
// parameters.
//
// That matrix comes from an iteration of Newton and Schulz, which consists of matrix products:
//   X = M / |M|, then ns_steps times: A = X X^T, X = a X + (b A + c A^2) X
// With Jordan's a, b and c small singular values grow fast, and all end between about 0.7 and 1.2.
//
// A first pass turns the gradients of the kernels into directions, one kernel at a time. Then a
// fused pass updates the kernels, and another one the other parameters. If the state is sharded
// over ranks, the first pass puts the average gradient of each kernel together, and every rank
// computes the direction of the whole kernel.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "lib/optim/adam.h"
#include "lib/optim/fused.h"
#include "lib/report/log.h"
#include "lib/util/pattern.h"

namespace bv {
namespace {

const KeyTable keys(
    "optax: muon",
    {"Muon, whose update of a kernel is as large in every direction of its inputs. It often needs "
     "fewer steps than Adam or SGD. Adam trains all that is no kernel. A step needs some more "
     "matrix products, whose share is small with large batches, and the state takes as much "
     "memory as Adam's.",
     "momentum: 0.95\nns_steps: 5"},
    {{"adam_for", "list of string", "['(.*/)?(embedding|head)/.*']",
      "Regular expressions of the names of kernels that Adam trains. By default these are the "
      "patches' embedding and the head. An expression must match the whole name. Adam also trains "
      "all that is no kernel: biases, norms, position embeddings."},
     {"momentum", "float 0..<1", "0.95",
      "For kernels, the share of the average gradient that stays in each step. It must be below "
      "1."},
     {"nesterov", "bool", "true",
      "For kernels, whether to look one step ahead with the average gradient (Nesterov's "
      "momentum)."},
     {"ns_steps", "int 1..20", "5",
      "Number of iterations that bring the singular values near 1. Each takes time; 3 are less "
      "exact and often enough."},
     {"adjust_lr", "'match_rms_adamw' | 'original'", "match_rms_adamw",
      "How large updates are, before `lr`. With `match_rms_adamw` their root mean square is about "
      "0.2, as that of Adam's, so that one `lr` suits both. With `original` the singular values "
      "are about sqrt(max(1, outputs / inputs)), as in Jordan's code; set `lr_mults` for what Adam "
      "trains."},
     {"b1", "float 0..<1", "0.9",
      "For the other parameters, as in [scale_by_adam](#scale_by_adam). It must be below 1."},
     {"b2", "float 0..<1", "0.999",
      "For the other parameters, as in [scale_by_adam](#scale_by_adam). It must be below 1."},
     {"eps", "float > 0", "1e-8",
      "For the other parameters, as in [scale_by_adam](#scale_by_adam)."}});

// A kernel that Muon trains. Its memory is seen as a matrix of inputs x outputs.
struct Kernel {
  std::vector<int64_t> shape, strides;
  int64_t inputs = 0, outputs = 0, numel = 0;
  // What this rank updates of it, in elements of its memory: all of it unless `sharded`.
  bool sharded = false;
  int64_t first = 0, count = 0;
  at::Tensor grad, momentum;  // (count), views of the flat buffers; undefined if count is 0
};

// Returns the number of leading dimensions that are inputs: all but the last. Attention's kernels
// are (D, heads, D / heads) or (heads, D / heads, D), so with three dimensions it is the split that
// is nearer to a square matrix.
size_t input_dims(const std::vector<int64_t>& shape) {
  if (shape.size() != 3) return shape.size() - 1;
  const auto imbalance = [](int64_t rows, int64_t columns) {
    return static_cast<double>(std::max(rows, columns)) / std::min(rows, columns);
  };
  const bool two =
      imbalance(shape[0] * shape[1], shape[2]) <= imbalance(shape[0], shape[1] * shape[2]);
  return two ? 2 : 1;
}

// The iteration of Newton and Schulz. `x` is (m, n) float32; the result has its shape. On a GPU the
// products are in bfloat16, as in Jordan's code.
at::Tensor orthogonalised(at::Tensor x, int64_t steps) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, kEps = 1e-7;
  const bool tall = x.size(0) > x.size(1);
  if (tall) x = x.t();
  x = x / (at::linalg_vector_norm(x) + kEps);
  if (x.is_cuda()) x = x.to(at::kBFloat16);
  for (int64_t i = 0; i < steps; ++i) {
    const at::Tensor squares = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(squares, squares, squares, b, c), x, a);
  }
  return tall ? x.t() : x;
}

bool is_kernel(const FlatParams::Entry& entry) {
  return entry.shape.size() >= 2 && (entry.name == "kernel" || entry.name.ends_with("/kernel"));
}

class Muon : public Optimizer {
 public:
  explicit Muon(const Config& config)
      : Optimizer({{.name = "mu"}, {.name = "nu"}}),
        momentum_(read_decay(config, "momentum", 0.95)),
        nesterov_(config.get<bool>("nesterov", true)),
        ns_steps_(config.get<int64_t>("ns_steps", 5)),
        match_adamw_(config.word("adjust_lr", "match_rms_adamw", {"match_rms_adamw", "original"}) ==
                     "match_rms_adamw"),
        b1_(read_decay(config, "b1", 0.9)),
        b2_(read_decay(config, "b2", 0.999)),
        eps_(config.get<double>("eps", 1e-8)) {
    const std::vector<std::string> standard = {"(.*/)?(embedding|head)/.*"};
    warn_if_unused_ = config.has("adam_for");
    for (const std::string& text : config.get<std::vector<std::string>>("adam_for", standard)) {
      const std::string problem = Pattern::problem(text);
      if (problem.empty())
        adam_for_.emplace_back(text);
      else
        config.problem("adam_for", problem);
    }
    if (ns_steps_ < 1 || ns_steps_ > 20) {
      config.problem("ns_steps", fmt::format("must be between 1 and 20, got {}", ns_steps_));
    }
    if (!(eps_ > 0)) config.problem("eps", fmt::format("must be positive, got {}", eps_));
  }

  void allocate(const FlatParams& params, Group& group) override {
    Optimizer::allocate(params, group);
    group_ = &group;
    std::map<const FlatParams::Entry*, FlatParams::OwnedSlice> owned;
    for (const auto& slice : params.owned_slices()) {
      owned.emplace(slice.entry, slice);
      slices_.push_back({slice.state, slice.state + slice.count, trains(*slice.entry)});
    }
    for (const FlatParams::Entry& entry : params.entries()) {
      if (entry.group == kFrozen || !trains(entry)) continue;
      const auto own = owned.find(&entry);
      kernels_.push_back(kernel_of(params, entry, own == owned.end() ? nullptr : &own->second));
    }
    if (kernels_.empty()) {
      throw Error(Exit::usage, "",
                  "optax_name: muon has nothing to do: no kernel is trained but those of "
                  "optax.adam_for; take 'optax_name: scale_by_adam'");
    }
    for (const Pattern& pattern : adam_for_) {
      const auto matches = [&](const auto& e) { return is_kernel(e) && pattern.matches(e.name); };
      if (warn_if_unused_ && std::ranges::none_of(params.entries(), matches))
        log::warn("optax.adam_for: the pattern '{}' matches no kernel", pattern.text());
    }
    // The largest first: threads that take one after the other then finish at about the same time.
    std::stable_sort(kernels_.begin(), kernels_.end(), [](const Kernel& a, const Kernel& b) {
      return a.numel * std::min(a.inputs, a.outputs) > b.numel * std::min(b.inputs, b.outputs);
    });
  }

  RuleNumbers rule_numbers(int64_t count) const override { return adam_numbers(b1_, b2_, count); }

  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override {
    direct_all(scalars, params.data().is_cpu());
    const std::array<std::vector<UpdateRange>, 2> parts = split(ranges);
    StepScalars rest = scalars;
    rest.clip_norm = 0;  // the first pass has clipped
    const at::Tensor sums = fused_update(FactorRule{1}, params, parts[1], rest, ema);
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
    return sums + fused_update(adam, params, parts[0], scalars, ema);
  }

 private:
  // Whether Muon trains the parameter.
  bool trains(const FlatParams::Entry& entry) const {
    return is_kernel(entry) &&
           std::none_of(adam_for_.begin(), adam_for_.end(),
                        [&](const Pattern& p) { return p.matches(entry.name); });
  }

  Kernel kernel_of(const FlatParams& params, const FlatParams::Entry& entry,
                   const FlatParams::OwnedSlice* own) const {
    Kernel k{.shape = entry.shape, .strides = entry.strides, .numel = entry.numel};
    k.inputs = 1;
    for (size_t i = 0; i < input_dims(entry.shape); ++i) k.inputs *= entry.shape[i];
    k.outputs = entry.numel / k.inputs;
    k.sharded = entry.segment >= 0;
    if (!own) return k;
    k.first = own->first;
    k.count = std::min(own->count, entry.numel - own->first);  // without the gap
    if (k.count <= 0) return k;
    k.grad = params.grads().narrow(0, own->grad, k.count);
    k.momentum = slots()[0].flat.narrow(0, own->state, k.count);
    return k;
  }

  // Writes the directions of all kernels over their gradients.
  void direct_all(const StepScalars& scalars, bool cpu) const {
    std::atomic<size_t> next = 0;
    const auto take = [&](int64_t, int64_t) {
      for (size_t i = next++; i < kernels_.size(); i = next++) {
        const Kernel& k = kernels_[i];
        if (!k.sharded) write(k, direction(k, averaged(k, scalars)));
      }
    };
    // One thread per kernel, so that sums do not depend on the number of threads.
    if (cpu)
      at::parallel_for(0, at::get_num_threads(), 1, take);
    else
      take(0, 1);
    for (const Kernel& k : kernels_) {
      if (!k.sharded) continue;
      const at::Tensor flat = at::zeros({k.numel}, slots()[0].flat.options());
      if (k.count > 0) flat.narrow(0, k.first, k.count).copy_(averaged(k, scalars));
      group_->all_reduce_sum(flat, "muon").wait();
      write(k, direction(k, flat));
    }
  }

  // Updates the average gradient and returns what is to be made a direction: (count).
  at::Tensor averaged(const Kernel& k, const StepScalars& scalars) const {
    clip_to_norm(k.grad, scalars);
    at::Tensor(k.momentum).lerp_(k.grad, 1 - momentum_);
    return nesterov_ ? k.grad.lerp(k.momentum, momentum_) : k.momentum;
  }

  // Returns the direction of the kernel, (inputs, outputs), from its whole average gradient
  // (numel), which is in the order of the kernel's memory.
  at::Tensor direction(const Kernel& k, const at::Tensor& flat) const {
    const double in = static_cast<double>(k.inputs), out = static_cast<double>(k.outputs);
    const double scale =
        match_adamw_ ? 0.2 * std::sqrt(std::max(in, out)) : std::sqrt(std::max(1.0, out / in));
    const at::Tensor matrix =
        flat.as_strided(k.shape, k.strides, flat.storage_offset()).reshape({k.inputs, k.outputs});
    return orthogonalised(matrix, ns_steps_) * scale;
  }

  // Writes what this rank has of a direction over its gradient.
  static void write(const Kernel& k, const at::Tensor& direction) {
    if (k.count == 0) return;
    const at::Tensor shaped = direction.reshape(k.shape);
    if (!k.sharded) {
      k.grad.as_strided(k.shape, k.strides, k.grad.storage_offset()).copy_(shaped);
      return;
    }
    const at::Tensor ordered = at::empty_strided(k.shape, k.strides, k.grad.options());
    ordered.copy_(shaped);
    at::Tensor(k.grad).copy_(ordered.as_strided({k.count}, {1}, k.first));
  }

  // Returns the parts of `ranges` that Adam trains, and those that Muon trains.
  std::array<std::vector<UpdateRange>, 2> split(std::span<const UpdateRange> ranges) const {
    std::array<std::vector<UpdateRange>, 2> parts;
    size_t i = 0;
    for (const auto& [begin, end, muon] : slices_) {
      while (ranges[i].end <= begin) ++i;
      UpdateRange part = ranges[i];
      part.begin = begin;
      part.end = end;
      part.data += begin - ranges[i].begin;
      part.grad += begin - ranges[i].begin;
      parts[muon ? 1 : 0].push_back(part);
    }
    return parts;
  }

  Group* group_ = &Group::single();
  std::vector<Pattern> adam_for_;
  bool warn_if_unused_ = false;
  double momentum_;
  bool nesterov_;
  int64_t ns_steps_;
  bool match_adamw_;
  double b1_, b2_, eps_;
  std::vector<Kernel> kernels_;
  struct Slice {
    int64_t begin, end;  // of a parameter in the state buffers, with the gap after it
    bool muon;           // whether Muon trains it
  };
  std::vector<Slice> slices_;  // all that this rank updates, in the order of the buffers
};
const Register<Optimizer, Muon> registered("muon");

}  // namespace
}  // namespace bv
