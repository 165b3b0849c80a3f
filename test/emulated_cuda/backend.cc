// Makes LibTorch treat the emulated GPU as a CUDA device: its allocator, streams, events and hooks.
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "test/emulated_cuda/memory.h"
#include "test/emulated_cuda/pinned.h"
#include "test/emulated_cuda/recording.h"
#include "test/emulated_cuda/tensors.h"

namespace bv::emulation {
namespace {

int g_device = 0;

}  // namespace

c10::Device device() { return {c10::kCUDA, static_cast<c10::DeviceIndex>(g_device)}; }

void use_device(int index) { g_device = index; }

size_t memory_size() {
  const char* const mib = std::getenv("BVTRAIN_EMULATED_GPU_MIB");
  return (mib ? std::strtoul(mib, nullptr, 10) : size_t{8192}) << 20;
}

int device_count() {
  const char* const count = std::getenv("BVTRAIN_EMULATED_GPUS");
  return count ? std::atoi(count) : 1;
}

void hang_if_due() {
  static std::atomic<int> launched = 0;
  const char* const at = std::getenv("BVTRAIN_EMULATED_HANG");
  if (++launched != (at ? std::atoi(at) : 0)) return;
  while (true) ::pause();
}

namespace {

class Allocator : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, device()};
    TORCH_CHECK_WITH(OutOfMemoryError, DeviceMemory::get().bytes() + bytes <= memory_size(),
                     "CUDA out of memory. Tried to allocate ", bytes, " bytes");
    void* const memory = DeviceMemory::get().allocate(bytes);
    peak_ = std::max(peak_, static_cast<int64_t>(DeviceMemory::get().bytes()));
    return {memory, memory, &free, device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    const DeviceMemory& memory = DeviceMemory::get();
    default_copy_data(memory.host(to), memory.host(from), bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto now = static_cast<int64_t>(DeviceMemory::get().bytes());
    for (auto* const all : {&stats.allocated_bytes, &stats.reserved_bytes}) {
      auto& one = (*all)[0];
      one.current = now;
      one.peak = std::max(peak_, now);
    }
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {
    peak_ = static_cast<int64_t>(DeviceMemory::get().bytes());
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    return {memory_size() - DeviceMemory::get().bytes(), memory_size()};
  }

 private:
  static void free(void* memory) { DeviceMemory::get().free(memory); }
  int64_t peak_ = 0;
};

class PinnedAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const memory = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    pin(memory, bytes);
    return {memory, memory, &free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free(void* memory) {
    unpin(memory);
    std::free(memory);
  }
};

class Guard : public c10::impl::DeviceGuardImplInterface {
 public:
  Guard() = default;
  explicit Guard(c10::DeviceType) {}
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  c10::Stream getStream(c10::Device) const override { return stream(current_stream()); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return stream(new_stream());
  }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(new_stream()); }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(exchange_stream(next.id()));
  }
  void record(void** event, const c10::Stream& on, c10::DeviceIndex,
              c10::EventFlag) const override {
    if (!*event) *event = new Event;
    emulation::record(*static_cast<Event*>(*event), on.id());
  }
  void block(void* event, const c10::Stream& on) const override {
    if (event) emulation::block(*static_cast<Event*>(event), on.id());
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  bool queryEvent(void* event) const override {
    if (event) synchronize(*static_cast<Event*>(event));
    return true;
  }
  bool queryStream(const c10::Stream& stream) const override {
    synchronize(stream.id());
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    forbid_in_recording("cudaStreamSynchronize");
    synchronize(stream.id());
  }
  void synchronizeEvent(void* event) const override {
    forbid_in_recording("cudaEventSynchronize");
    if (event) synchronize(*static_cast<Event*>(event));
  }
  void synchronizeDevice(c10::DeviceIndex) const override {
    forbid_in_recording("cudaDeviceSynchronize");
    synchronize();
  }

 private:
  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device(), id);
  }
};

}  // namespace

struct Hooks : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedAllocator allocator;
    return &allocator;
  }
  c10::Device getDeviceFromPtr(void*) const override { return device(); }
  c10::DeviceIndex current_device() const override { return device().index(); }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  c10::DeviceIndex getCurrentDevice() const override { return device().index(); }
  int getNumGPUs() const override { return device_count(); }
  void deviceSynchronize(c10::DeviceIndex) const override { synchronize(); }
};
namespace {

Allocator g_allocator;
REGISTER_ALLOCATOR(c10::kCUDA, &g_allocator)
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace
}  // namespace bv::emulation

namespace at {
using EmulatedHooks = bv::emulation::Hooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, EmulatedHooks)
}  // namespace at
