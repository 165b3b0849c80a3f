// LibTorch's operators on the emulated GPU: those of the CPU, on the second mapping of its memory.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "test/emulated_cuda/memory.h"
#include "test/emulated_cuda/recording.h"
#include "test/emulated_cuda/tensors.h"

namespace bv::emulation {

at::Tensor as_host(const at::Tensor& device) {
  const c10::Storage& storage = device.storage();
  void* const memory = DeviceMemory::get().host(storage.data());
  at::DataPtr pointer(memory, c10::Device(c10::kCPU));
  auto impl = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                    storage.nbytes(), std::move(pointer), nullptr,
                                                    /*resizable=*/false);
  at::Tensor host = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(impl)), c10::DispatchKeySet(c10::DispatchKey::CPU), device.dtype());
  host.unsafeGetTensorImpl()->set_storage_offset(device.storage_offset());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(device.sizes(), device.strides());
  if (device.is_conj() || device.is_neg()) throw std::runtime_error("a lazy view on the device");
  return host;
}

namespace {

using torch::jit::Stack;

// A call of an operator with host tensors in place of the device tensors.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack arguments) : op_(op) {
    for (c10::IValue& value : arguments) arguments_.push_back(as_host_value(value));
  }

  // Runs the operator. Returns the results as device tensors; new ones get memory there.
  Stack run() {
    Stack results = run_on_host();
    Stack seen;
    for (c10::IValue& result : results) seen.push_back(as_device_value(result));
    return seen;
  }
  // Runs it again, with the same tensors in the same places.
  void run_again() const {
    Stack results = run_on_host();
    size_t next = 0;
    const auto keep = [&](const at::Tensor& result) {
      const at::Tensor& place = places_.at(next++);
      if (place.defined()) place.copy_(result);
    };
    const Unseen unseen;
    for (const c10::IValue& result : results) {
      if (result.isTensor())
        keep(result.toTensor());
      else if (result.isTensorList())
        for (const at::Tensor& one : result.toTensorVector()) keep(one);
    }
  }

 private:
  Stack run_on_host() const {
    const Unseen unseen;
    Stack stack = arguments_;
    op_.callBoxed(stack);
    return stack;
  }

  at::Tensor host_of(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (!tensor.is_cuda()) {
      // CUDA accepts scalars from the host, but no other host tensors.
      if (tensor.dim() > 0)
        throw std::runtime_error(op_.schema().name() +
                                 ": expected all tensors to be on the same device");
      return tensor;
    }
    // Operators give an empty tensor the size of their result.
    const Unseen unseen;
    at::Tensor host = tensor.numel() == 0
                          ? at::empty(tensor.sizes(), at::TensorOptions(tensor.dtype()))
                          : as_host(tensor);
    originals_.emplace(host.unsafeGetTensorImpl(), tensor);
    return host;
  }

  c10::IValue as_host_value(const c10::IValue& value) {
    if (value.isTensor()) return host_of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> all;
      for (const at::Tensor& tensor : value.toTensorVector()) all.push_back(host_of(tensor));
      return all;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> all;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        all.push_back(tensor ? std::optional(host_of(*tensor)) : std::nullopt);
      return all;
    }
    if (value.isDevice()) return c10::Device(c10::kCPU);
    return value;
  }

  at::Tensor device_of(const at::Tensor& host) {
    places_.emplace_back();
    if (!host.defined()) return host;
    const auto original = originals_.find(host.unsafeGetTensorImpl());
    if (original != originals_.end()) {
      const at::Tensor& own = original->second;
      if (own.sizes() == host.sizes()) return own;
      if (own.numel() > 0) throw std::runtime_error(op_.schema().name() + " resizes its result");
      const at::Tensor fresh = on_device(host);
      own.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
      own.unsafeGetTensorImpl()->set_sizes_and_strides(fresh.sizes(), fresh.strides());
      return own;
    }
    if (DeviceMemory::get().has_host(host.storage().data())) {  // a view
      for (const auto& [impl, tensor] : originals_) {
        if (DeviceMemory::get().host(tensor.storage().data()) == host.storage().data())
          return at::native::as_strided_tensorimpl(tensor, host.sizes(), host.strides(),
                                                   host.storage_offset());
      }
      throw std::runtime_error(op_.schema().name() + " returns a view of nothing that it got");
    }
    return on_device(host);
  }

  // Returns a copy in new memory of the device, the place of this result.
  at::Tensor on_device(const at::Tensor& host) {
    const Unseen unseen;
    const at::Tensor device =
        at::empty_strided(host.sizes(), host.strides(), host.options().device(emulation::device()));
    places_.back() = as_host(device);
    places_.back().copy_(host);
    return device;
  }

  c10::IValue as_device_value(const c10::IValue& value) {
    if (value.isTensor()) return device_of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> all;
      for (const at::Tensor& tensor : value.toTensorVector()) all.push_back(device_of(tensor));
      return all;
    }
    return value;
  }

  const c10::OperatorHandle op_;
  Stack arguments_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> originals_;
  std::vector<at::Tensor> places_;  // for each result, where it is if it is new
};

// Whether the operator makes the host wait for a value from the device.
bool reads(const std::string& name) {
  return name == "aten::_local_scalar_dense" || name == "aten::equal" || name == "aten::nonzero" ||
         name == "aten::is_nonzero" || name == "aten::masked_select";
}

void run_operator(const c10::OperatorHandle& op, Stack* stack) {
  const std::string& name = op.schema().name();
  if (reads(name)) {
    forbid_in_recording(name.c_str());
    synchronize(current_stream());
  }
  const size_t count = op.schema().arguments().size();
  Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  torch::jit::drop(*stack, count);
  const auto call = std::make_shared<Call>(op, std::move(arguments));
  Stack results;
  const auto done = std::make_shared<bool>(false);
  submit([&results, call, done] {
    if (*done) return call->run_again();
    results = call->run();
    *done = true;
  });
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const auto dtype = c10::scalarTypeToTypeMeta(type.value_or(at::kFloat));
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  int64_t elements = 1;
  for (const int64_t n : sizes) elements *= n;
  auto* const allocator = c10::GetAllocator(c10::kCUDA);
  const size_t bytes = static_cast<size_t>(elements) * dtype.itemsize();
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       allocator->allocate(bytes), allocator,
                                                       /*resizable=*/true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CUDA), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  if (format && *format != at::MemoryFormat::Contiguous && *format != at::MemoryFormat::Preserve)
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return tensor;
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size), strides = C10_AS_INTARRAYREF_SLOW(stride);
  const auto dtype = c10::scalarTypeToTypeMeta(type.value_or(at::kFloat));
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, dtype.itemsize());
  const c10::SymInt elements(static_cast<int64_t>(bytes / dtype.itemsize()));
  at::Tensor tensor = empty(elements, type, layout, device, pin, std::nullopt);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

// The host must not read the result before it has waited for the copy.
void copy_later(const at::Tensor& to, const at::Tensor& from) {
  at::Tensor values;
  {
    const Unseen unseen;
    values = as_host(from).clone();
    to.fill_(to.is_floating_point() ? std::nan("") : 77);
  }
  submit([] {});
  when_reached([to, values] {
    const Unseen unseen;
    at::Tensor(to).copy_(values);
  });
}

// The host must not write to memory that is still copied from.
void check_unchanged(const at::Tensor& host) {
  at::Tensor before;
  {
    const Unseen unseen;
    before = host.clone();
  }
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
  };
  when_reached([host, before, same] {
    if (host.is_contiguous() && !same(host, before))
      throw std::runtime_error("the host has written to memory that the device still copies");
  });
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const bool to_host = !to.is_cuda(), from_host = !from.is_cuda();
  if (to_host || from_host) {
    const at::Tensor& host = to_host ? to : from;
    if (!non_blocking || !host.is_pinned()) forbid_in_recording("a copy that the host waits for");
  }
  if (to_host && non_blocking) return copy_later(to, from), to;
  submit([to_values = to_host ? to : as_host(to), from_values = from_host ? from : as_host(from)] {
    const Unseen unseen;
    to_values.copy_(from_values);
  });
  if (from_host && non_blocking && from.is_pinned()) check_unchanged(from);
  if ((to_host || from_host) && !(non_blocking && (to_host ? to : from).is_pinned()))
    synchronize(current_stream());
  return to;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, c10::SymInt offset,
                        c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  self.unsafeGetTensorImpl()->set_storage_offset(offset.guard_int(__FILE__, __LINE__));
  self.unsafeGetTensorImpl()->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size),
                                                    C10_AS_INTARRAYREF_SLOW(stride));
  return self;
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_operator>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("copy_", TORCH_FN(copy));
  // Otherwise LibTorch splits it into _slow_conv2d_backward, because a GPU without cuDNN would need
  // that. On a CPU its weight gradient is wrong for a 1x1 kernel.
  m.impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&run_operator>());
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
}

}  // namespace
}  // namespace bv::emulation
