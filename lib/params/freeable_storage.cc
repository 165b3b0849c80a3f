#include "lib/params/freeable_storage.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "lib/util/error.h"

namespace bv {
namespace {

std::atomic<int64_t> now = 0, most = 0;

// Makes `memory` the storage of `tensor` and returns the previous storage.
at::DataPtr exchange(const at::Tensor& tensor, at::DataPtr memory) {
  return tensor.storage().unsafeGetStorageImpl()->set_data_ptr(std::move(memory));
}

at::DataPtr no_memory(const at::Tensor& tensor) { return {nullptr, tensor.device()}; }

}  // namespace

FreeableStorage::FreeableStorage(int64_t elements, c10::Device device)
    : tensor_(at::empty({elements}, at::TensorOptions(at::kFloat).device(device))) {
  exchange(tensor_, no_memory(tensor_));
}

void FreeableStorage::allocate(bool zeroed) {
  check(!allocated_, "memory is allocated already");
  const at::Tensor fresh = at::empty(tensor_.sizes(), tensor_.options());
  exchange(tensor_, exchange(fresh, no_memory(fresh)));
  if (zeroed) tensor_.zero_();
  allocated_ = true;
  now += static_cast<int64_t>(tensor_.nbytes());
  most = std::max(most.load(), now.load());
}

void FreeableStorage::free() {
  if (!allocated_) return;
  exchange(tensor_, no_memory(tensor_));
  allocated_ = false;
  now -= static_cast<int64_t>(tensor_.nbytes());
}

int64_t FreeableStorage::bytes_now() { return now; }
int64_t FreeableStorage::bytes_most() { return most; }

}  // namespace bv
