// Private to lib/distributed: what an open Group consists of.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <functional>
#include <memory>

#include "lib/distributed/group.h"
#include "lib/distributed/store.h"
#include "lib/distributed/watch/watch.h"

namespace bv {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

struct Group::Impl {
  RankLayout layout;
  GroupOptions options;
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<Watch> watch;
  std::unique_ptr<Store> store;
  c10::intrusive_ptr<c10d::Backend> cpu, cuda;  // Gloo; NCCL if ranks have CUDA devices, or null
  int64_t collectives = 0;
  double bytes = 0;

  c10d::Backend& of(const at::Tensor& tensor) {
    check(tensor.is_cpu() || cuda, "a collective of tensors on {}", tensor.device().str());
    return tensor.is_cpu() ? *cpu : *cuda;
  }

  void close() {
    if (cuda) cuda->shutdown();
    cuda.reset();
    cpu.reset();
  }
  // Starts a collective, counts it, and reports it to `watch`. `finish` runs on the waiting thread.
  // `by_all`: whether the collective's end proves that all ranks have joined it.
  Pending begin(const char* what, double bytes_sent, const std::function<WorkPointer()>& start,
                std::function<void()> finish = {}, bool by_all = true);
};

}  // namespace bv
