#include "lib/params/freeable_storage.h"

#include <ATen/ops/empty.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <new>
#include <utility>

#include "lib/util/error.h"

namespace bv {
namespace {

std::atomic<int64_t> now = 0, most = 0;

// CPU memory comes from mmap: blocks of about 10 MB that come and go between activations would
// fragment the heap, which would then grow without bound.
at::DataPtr map_memory(size_t bytes) {
  struct Mapped {
    void* address;
    size_t bytes;
  };
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  return {address, new Mapped{address, bytes},
          [](void* context) {
            auto* mapped = static_cast<Mapped*>(context);
            ::munmap(mapped->address, mapped->bytes);
            delete mapped;
          },
          c10::Device(c10::kCPU)};
}

// A few freed blocks are kept for the next allocation of the same size, which saves page faults.
constexpr size_t kMaxSpares = 3;  // blocks of any size
struct Spare {
  size_t bytes;
  at::DataPtr memory;
};
std::deque<Spare>& spares() {
  static std::deque<Spare> all;
  return all;
}

at::DataPtr exchange(const at::Tensor& tensor, at::DataPtr memory);

at::DataPtr take_memory(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) {
    const at::Tensor fresh = at::empty(tensor.sizes(), tensor.options());
    return exchange(fresh, at::DataPtr(nullptr, tensor.device()));
  }
  const auto found = std::find_if(spares().begin(), spares().end(), [&](const Spare& spare) {
    return spare.bytes == tensor.nbytes();
  });
  if (found == spares().end()) return map_memory(tensor.nbytes());
  at::DataPtr memory = std::move(found->memory);
  spares().erase(found);
  return memory;
}

void keep_memory(const at::Tensor& tensor, at::DataPtr memory) {
  if (!tensor.is_cpu()) return;
  spares().push_back({tensor.nbytes(), std::move(memory)});
  if (spares().size() > kMaxSpares) spares().pop_front();
}

// Makes `memory` the storage of `tensor` and returns the previous storage.
at::DataPtr exchange(const at::Tensor& tensor, at::DataPtr memory) {
  return tensor.storage().unsafeGetStorageImpl()->set_data_ptr(std::move(memory));
}

}  // namespace

FreeableStorage::FreeableStorage(int64_t elements, c10::Device device)
    : tensor_(at::empty({elements}, at::TensorOptions(at::kFloat).device(device))) {
  exchange(tensor_, at::DataPtr(nullptr, device));
}

void FreeableStorage::allocate(bool zeroed) {
  check(!allocated_, "memory is allocated already");
  exchange(tensor_, take_memory(tensor_));
  if (zeroed) tensor_.zero_();
  allocated_ = true;
  now += static_cast<int64_t>(tensor_.nbytes());
  most = std::max(most.load(), now.load());
}

void FreeableStorage::free() {
  if (!allocated_) return;
  keep_memory(tensor_, exchange(tensor_, at::DataPtr(nullptr, tensor_.device())));
  allocated_ = false;
  now -= static_cast<int64_t>(tensor_.nbytes());
}

int64_t FreeableStorage::bytes_now() { return now; }
int64_t FreeableStorage::bytes_most() { return most; }

}  // namespace bv
