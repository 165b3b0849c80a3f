// Replaces NCCL: collectives of the emulated GPUs, which Gloo runs on the second mapping of their
// memory. They run as work of a separate stream, so graphs capture them.
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>
#include <string>

#include "lib/cuda/export.h"
#include "lib/distributed/nccl_impl.h"
#include "test/emulated_cuda/recording.h"
#include "test/emulated_cuda/tensors.h"

namespace bv::emulation {
namespace {

// Its wait() makes the current stream wait.
class StreamWork : public c10d::Work {
 public:
  explicit StreamWork(Event event) : event_(event) {}
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds) override {
    check_device();
    block(event_, current_stream());
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const std::vector<c10::Device> devices = {device()};
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors(), devices);
    future->markCompleted(c10::List<at::Tensor>());
    return future;
  }

 private:
  const Event event_;
};

class Nccl : public c10d::Backend {
 public:
  Nccl(const c10::intrusive_ptr<c10d::Store>& keys, int rank, int size)
      : c10d::Backend(rank, size), stream_(new_stream()) {
    const auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::hours(1));
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("nccl", keys), rank, size, options);
  }
  const std::string getBackendName() const override { return "emulated nccl"; }
  void shutdown() override {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return start([this, options, values = as_host(tensors.at(0))] {
      std::vector<at::Tensor> all{values};
      gloo_->allreduce(all, options)->wait();
    });
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return start([this, options, values = as_host(tensors.at(0))] {
      std::vector<at::Tensor> all{values};
      gloo_->broadcast(all, options)->wait();
    });
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& to, at::Tensor& from,
                                                 const c10d::AllgatherOptions& options) override {
    auto work = start([this, options, output = as_host(to), input = as_host(from)] {
      at::Tensor all = output, own = input;
      gloo_->_allgather_base(all, own, options)->wait();
    });
    // BVTRAIN_EMULATED_FAULT=0:3 breaks device 0 when it has begun its third all-gather.
    const char* const fault = std::getenv("BVTRAIN_EMULATED_FAULT");
    if (fault && fault == std::to_string(device().index()) + ":" + std::to_string(++gathers_))
      break_device();
    return work;
  }
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& to, at::Tensor& from,
                                                      const c10d::ReduceScatterOptions&) override {
    return start([this, output = as_host(to), input = as_host(from)] {
      at::Tensor all = at::empty({getSize(), getSize(), output.numel()}, output.options());
      at::Tensor flat = all.view(-1), own = input.view(-1);
      gloo_->_allgather_base(flat, own, {})->wait();
      output.view(-1).copy_(all.select(1, getRank()).sum(0));
    });
  }

 private:
  c10::intrusive_ptr<c10d::Work> start(const std::function<void()>& collective) {
    hang_if_due();
    Event before, after;
    record(before, current_stream());
    block(before, stream_);
    const c10::StreamId outer = exchange_stream(stream_);
    submit([collective] {
      const Unseen unseen;
      collective();
    });
    exchange_stream(outer);
    record(after, stream_);
    return c10::make_intrusive<StreamWork>(after);
  }

  const c10::StreamId stream_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  int gathers_ = 0;  // all-gathers begun
};

}  // namespace
}  // namespace bv::emulation

BV_EXPORT void bvtrain_cuda_nccl(const c10::intrusive_ptr<c10d::Store>& keys, int rank, int size,
                                 int, c10::intrusive_ptr<c10d::Backend>& backend) {
  backend = c10::make_intrusive<bv::emulation::Nccl>(keys, rank, size);
}
