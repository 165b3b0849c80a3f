#include "lib/model/kernels/device/device_check.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/sin.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "lib/device/out_of_memory.h"
#include "lib/report/log.h"

namespace bv {
namespace {

using Tensors = std::vector<at::Tensor>;

// The maximum error, as a fraction of the norm: several roundings to bfloat16 cause up to 0.03, a
// wrong kernel about 1.
constexpr double kBound = 0.1;

// The results of all checks. The key is the kernel and the index of the device.
struct Results {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, bool> right;
};
Results& known_results() {
  static auto* const results = new Results;
  return *results;
}

thread_local bool t_checking = false;

struct Checking {
  Checking() { t_checking = true; }
  ~Checking() { t_checking = false; }
};

// Returns the gradients of the inputs for dummy gradients of the results, and then the results.
Tensors results(const KernelCheck::Compute& compute, const Tensors& inputs) {
  const c10::AutoGradMode grad_mode(true);
  Tensors leaves, above;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const Tensors outputs = compute(leaves);
  for (const at::Tensor& output : outputs) {
    const at::Tensor numbers =
        check_numbers(output.sizes(), 17 + std::ssize(above), output.device(), at::kBFloat16);
    above.push_back(numbers.to(output.scalar_type()));
  }
  Tensors all = torch::autograd::grad(outputs, leaves, above);
  all.insert(all.end(), outputs.begin(), outputs.end());
  return all;
}

bool agree(const Tensors& got, const Tensors& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    const at::Tensor expected = want[i].detach().to(at::kFloat);
    const at::Tensor apart = got[i].detach().to(at::kFloat) - expected;
    if (!(apart.norm() <= kBound * expected.norm()).item<bool>()) return false;  // also for NaN
  }
  return true;
}

bool is_right(c10::Device device, const std::function<KernelCheck(c10::Device)>& make) {
  const Checking checking;
  const c10::InferenceMode ordinary(false);
  const KernelCheck check = make(device);
  // Both get the same values, rounded to bfloat16. Otherwise a ReLU could be active in only one of
  // them.
  Tensors inputs, wide;
  for (const at::Tensor& input : check.inputs) {
    inputs.push_back(input.to(at::kBFloat16).to(input.scalar_type()));
    wide.push_back(inputs.back().to(at::kFloat));
  }
  if (!agree(results(check.fused, inputs), results(check.plain, wide))) return false;
  const c10::NoGradGuard no_grad;
  return agree(check.fused(inputs), check.plain(wide));
}

}  // namespace

bool fused_kernel_is_right(const char* name, c10::Device device,
                           const std::function<KernelCheck(c10::Device)>& check) {
  if (t_checking) return true;
  Results& known = known_results();
  const std::pair<std::string, int> key(name, device.index());
  const std::lock_guard lock(known.mutex);
  const auto found = known.right.find(key);
  if (found != known.right.end()) return found->second;
  bool right = false;
  std::string why = "differs from LibTorch's operators";
  try {  // backward must not call this: its thread would wait for this one forever
    right = is_right(device, check);
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
    why = fmt::format("failed ({})",
                      of_torch != nullptr ? of_torch->what_without_backtrace() : error.what());
  }
  if (!right)
    log::warn(
        "the fused kernel for {} {} on {}, so LibTorch's are used; please report this "
        "(BVTRAIN_PLAIN_KERNELS=1 uses LibTorch's for all)",
        name, why, device.str());
  return known.right.emplace(key, right).first->second;
}

std::vector<std::string> wrong_kernels(c10::Device device) {
  Results& known = known_results();
  const std::lock_guard lock(known.mutex);
  std::vector<std::string> names;
  for (const auto& [key, right] : known.right)
    if (!right && key.second == device.index()) names.push_back(key.first);
  return names;
}

at::Tensor check_numbers(at::IntArrayRef shape, int64_t seed, c10::Device device,
                         at::ScalarType type) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const at::Tensor order = at::arange(count, at::TensorOptions(device).dtype(at::kFloat));
  return at::sin(order * static_cast<double>(2 * seed + 1)).view(shape).to(type);
}

}  // namespace bv
