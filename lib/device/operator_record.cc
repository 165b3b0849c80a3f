// LibTorch is built with NDEBUG. Without it, our RecordFunction would have one more member than
// LibTorch's. The precompiled header is built without it, so this file does not use that header
// (CMakeLists.txt).
#define NDEBUG

#include "lib/device/operator_record.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Operators that compute and move nothing themselves: views, allocations, and those that only call
// others.
const std::set<std::string, std::less<>>& free_operators() {
  static constexpr std::string_view kNames =
      "empty empty_like empty_strided empty_permuted new_empty resize_ view reshape "
      "_reshape_alias as_strided transpose t permute select slice narrow split "
      "split_with_sizes chunk unbind squeeze unsqueeze expand expand_as alias detach "
      "flatten unflatten result_type item _local_scalar_dense is_nonzero view_as movedim "
      "set_ resolve_conj resolve_neg _unsafe_view broadcast_to lift_fresh "
      "_has_same_storage_numel to zeros zeros_like new_zeros zero_ ones ones_like full "
      "full_like is_pinned";
  static const std::set<std::string, std::less<>> all = [] {
    const std::vector<std::string> words = split(kNames, ' ');
    return std::set<std::string, std::less<>>(words.begin(), words.end());
  }();
  return all;
}

bool is_free(std::string_view name) {
  constexpr std::string_view kSpace = "aten::";
  return !name.starts_with(kSpace) || free_operators().contains(name.substr(kSpace.size()));
}

using Values = c10::ArrayRef<const c10::IValue>;

void add_tensors(const c10::IValue& value, std::vector<at::Tensor>& out) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) out.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) out.push_back(tensor);
  }
}

std::vector<at::Tensor> tensors_of(Values values) {
  std::vector<at::Tensor> out;
  for (const c10::IValue& value : values) add_tensors(value, out);
  return out;
}

// Counts each element of an expanded tensor once, as it is stored in memory.
double bytes_of(const at::Tensor& tensor) {
  const auto all = static_cast<double>(tensor.nbytes());
  return tensor.has_storage() ? std::min(all, static_cast<double>(tensor.storage().nbytes())) : all;
}

double bytes_of(const std::vector<at::Tensor>& tensors) {
  double bytes = 0;
  std::set<const void*> seen;
  for (const at::Tensor& tensor : tensors)
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) bytes += bytes_of(tensor);
  return bytes;
}

double elements(const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); }

// (..., m, k) times (k, n)
double product_flops(const at::Tensor& a, const at::Tensor& b) {
  return a.dim() < 2 || b.dim() < 2 ? 2 * elements(a)
                                    : 2 * elements(a) * static_cast<double>(b.size(-1));
}

// Each output of a convolution sums over the kernel's part for one channel of outputs.
double convolution_flops(const at::Tensor& output, const at::Tensor& kernel) {
  return 2 * elements(output) * elements(kernel) / static_cast<double>(kernel.size(0));
}

// Queries and keys of (n, heads, length, width): two products forward, five backward.
double attention_flops(const at::Tensor& query, const at::Tensor& key, bool backward) {
  return (backward ? 10 : 4) * elements(query) * static_cast<double>(key.size(-2));
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns the FLOPs of an operator, from its inputs and its final outputs.
double flops_of(std::string_view name, const std::vector<at::Tensor>& in,
                const std::vector<at::Tensor>& out) {
  if ((name == "aten::mm" || name == "aten::bmm") && in.size() > 1)
    return product_flops(in[0], in[1]);
  if ((name == "aten::addmm" || name == "aten::addmm_" || name == "aten::baddbmm") && in.size() > 2)
    return product_flops(in[1], in[2]);
  if (has(name, "_scaled_dot_product") && in.size() > 2)
    return has(name, "backward") ? attention_flops(in[1], in[2], true)
                                 : attention_flops(in[0], in[1], false);
  if (name == "aten::convolution_backward" && in.size() > 2) {
    // The input and kernel gradients; the bias gradient is not a product.
    const auto products = std::count_if(out.begin(), out.end(),
                                        [](const at::Tensor& each) { return each.dim() > 1; });
    return static_cast<double>(products) * convolution_flops(in[0], in[2]);
  }
  if (name == "aten::convolution" && in.size() > 1 && !out.empty())
    return convolution_flops(out[0], in[1]);
  return 0;
}

// Operators that count as one, regardless of the operators that they call.
bool counts_as_one(std::string_view name) {
  if (!name.starts_with("aten::")) return false;
  for (const char* part : {"convolution", "_scaled_dot_product_", "mm", "_norm", "gelu", "softmax"})
    if (has(name, part)) return true;
  // Operands of different types: a GPU converts them on the fly, a CPU copies them first.
  for (const std::string_view arithmetic : {"aten::add", "aten::sub", "aten::mul", "aten::div"})
    if (name == arithmetic ||
        (name.starts_with(arithmetic) && name.substr(arithmetic.size()) == "_"))
      return true;
  return false;
}

struct OperatorRecord {
  std::atomic<bool> exists = false;
  std::atomic<c10::DeviceType> type = c10::kCPU;
  std::atomic<bool> update = false;
  std::mutex mutex;
  std::vector<OperatorCall> calls;
} g_record;

// An operator that has begun.
struct Open : at::ObserverContext {
  Open* around = nullptr;
  bool counts = true;         // false inside an operator that counts as one
  bool calls_others = false;  // it calls other operators, which count instead of it
  bool one = false;
  bool sums = false;
  bool fills = false;  // it calls fill_()
  std::vector<at::Tensor> inputs;
};

thread_local Open* t_open = nullptr;

// Tensors of other devices are left out.
std::vector<at::Tensor> recorded(std::vector<at::Tensor> tensors) {
  std::erase_if(tensors,
                [](const at::Tensor& each) { return each.device().type() != g_record.type; });
  return tensors;
}

constexpr std::string_view kFill = "aten::fill_", kZero = "aten::zero_";

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
  auto open = std::make_unique<Open>();
  open->around = t_open;
  open->one = counts_as_one(call.name());
  open->sums = std::string_view(call.name()) == "aten::sum";
  if (t_open != nullptr) open->counts = t_open->counts && !t_open->one;
  open->inputs = recorded(tensors_of(call.inputs()));
  t_open = open.get();
  return open;
}

// Operators that do not read what they write: copy_(), fill_(), zero_(), and those with a given
// output.
bool only_writes(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const auto full_name = call.operator_name();
  return name == "aten::copy_" || name == kFill || name == kZero ||
         (full_name && has(full_name->overload_name, "out"));
}

void end(const at::RecordFunction& call, at::ObserverContext* context) {
  const Open& open = *static_cast<Open*>(context);
  t_open = open.around;
  std::string_view name = call.name();
  if (name == kFill && open.around != nullptr) open.around->fills = true;
  // On a CPU zero_() calls fill_() only for large tensors. For a small one it is recorded as a
  // fill_() that is not listed.
  const bool cpu = g_record.type == c10::kCPU, small_fill = cpu && name == kZero && !open.fills;
  if (small_fill) name = kFill;
  if (!open.counts || (open.calls_others && !open.one) || is_free(name)) return;
  // With several threads a sum of many numbers begins with copies of its result.
  if (cpu && name == "aten::copy_" && open.around != nullptr && open.around->sums) return;
  if (name != kFill) {  // called to fill the memory of a result
    for (Open* around = open.around; around != nullptr; around = around->around)
      around->calls_others = true;
  }
  const std::vector<c10::IValue>& values = call.outputs();
  const std::vector<at::Tensor> outputs =
      recorded(tensors_of(Values(values.data(), values.size())));
  std::vector<at::Tensor> inputs = open.inputs;
  if (only_writes(call)) {
    std::erase_if(inputs, [&](const at::Tensor& input) {
      return std::any_of(outputs.begin(), outputs.end(),
                         [&](const at::Tensor& output) { return output.is_same(input); });
    });
  }
  const std::lock_guard guard(g_record.mutex);
  g_record.calls.push_back({.name = std::string(name),
                            .flops = flops_of(name, open.inputs, outputs),
                            .bytes = bytes_of(inputs) + bytes_of(outputs),
                            .update = g_record.update,
                            .listed = !small_fill});
}

}  // namespace

OperatorRecorder::OperatorRecorder(c10::DeviceType type) {
  check(!exists(), "two recorders of operators");
  {
    const std::lock_guard guard(g_record.mutex);
    g_record.type = type;
    g_record.calls.clear();
    g_record.exists = true;
  }
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                                      .needsInputs(true)
                                      .needsOutputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}

OperatorRecorder::~OperatorRecorder() {
  at::removeCallback(handle_);
  g_record.exists = false;
}

bool OperatorRecorder::exists() { return g_record.exists; }

std::vector<OperatorCall> OperatorRecorder::calls() const {
  const std::lock_guard guard(g_record.mutex);
  return g_record.calls;
}

double OperatorRecorder::bytes() const {
  double sum = 0;
  for (const OperatorCall& call : calls())
    if (call.listed) sum += call.bytes;
  return sum;
}

UpdateCalls::UpdateCalls() { g_record.update = true; }

UpdateCalls::~UpdateCalls() { g_record.update = false; }

void note_operator(OperatorCall call) {
  if (!OperatorRecorder::exists()) return;
  const std::lock_guard guard(g_record.mutex);
  g_record.calls.push_back(std::move(call));
}

void note_kernel(const char* name, at::TensorList tensors) {
  if (!OperatorRecorder::exists()) return;
  double bytes = 0;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) bytes += static_cast<double>(tensor.nbytes());
  note_operator({name, 0, bytes});
}

}  // namespace bv
