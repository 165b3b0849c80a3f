#include "test/emulated_cuda/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace bv::emulation {
namespace {

constexpr size_t kReserved = size_t{1} << 34;  // of addresses; memory is taken when it is written
constexpr size_t kAlign = 512;

thread_local int accesses = 0;  // of this thread, if the memory has a protection key

unsigned char* map_file(int file, int protection) {
  void* const address = ::mmap(nullptr, kReserved, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (address == MAP_FAILED) {
    std::perror("emulated device memory");
    std::abort();
  }
  return static_cast<unsigned char*>(address);
}

}  // namespace

DeviceMemory& DeviceMemory::get() {
  static auto* const memory = new DeviceMemory;  // never destroyed: tensors may outlive main()
  return *memory;
}

DeviceMemory::DeviceMemory() {
  const int file = ::memfd_create("emulated device memory", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, kReserved) != 0) std::abort();
  key_ = ::pkey_alloc(0, PKEY_DISABLE_ACCESS);
  device_ = map_file(file, PROT_NONE);
  if (key_ >= 0) ::pkey_mprotect(device_, kReserved, PROT_READ | PROT_WRITE, key_);
  host_ = map_file(file, PROT_READ | PROT_WRITE);
  ::close(file);
}

void* DeviceMemory::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const size_t size = std::max<size_t>((bytes + kAlign - 1) / kAlign, 1) * kAlign;
  size_t place = end_;
  const auto found = free_.find(size);
  if (found != free_.end()) {
    place = found->second;
    free_.erase(found);
  } else {
    if (end_ + size > kReserved) throw std::runtime_error("the emulated device is full");
    end_ += size;
  }
  live_[place] = size;
  bytes_ += size;
  std::memset(host_ + place, 0xff, size);
  return device_ + place;
}

void DeviceMemory::free(void* device) {
  const std::lock_guard lock(mutex_);
  if (!device) return;
  if (holds_)
    held_.push_back(device);
  else
    release(device);
}

void DeviceMemory::release(void* device) {
  const auto block = live_.find(place(device));
  if (block == live_.end()) std::abort();  // freed twice
  free_.emplace(block->second, block->first);
  bytes_ -= block->second;
  live_.erase(block);
}

size_t DeviceMemory::place(const void* device) const {
  return static_cast<size_t>(static_cast<const unsigned char*>(device) - device_);
}

bool DeviceMemory::has_device(const void* address) const {
  return address >= device_ && address < device_ + kReserved;
}

bool DeviceMemory::has_host(const void* address) const {
  return address >= host_ && address < host_ + kReserved;
}

void* DeviceMemory::host(const void* device) const {
  return device ? host_ + place(device) : nullptr;
}

void* DeviceMemory::device(const void* host) const {
  return device_ + (static_cast<const unsigned char*>(host) - host_);
}

DeviceMemory::Access::Access() {
  DeviceMemory& memory = get();
  if (memory.key_ >= 0) {
    if (accesses++ == 0) ::pkey_set(memory.key_, 0);
    return;
  }
  const std::lock_guard lock(memory.mutex_);
  if (memory.access_++ == 0) ::mprotect(memory.device_, kReserved, PROT_READ | PROT_WRITE);
}

DeviceMemory::Access::~Access() {
  DeviceMemory& memory = get();
  if (memory.key_ >= 0) {
    if (--accesses == 0) ::pkey_set(memory.key_, PKEY_DISABLE_ACCESS);
    return;
  }
  const std::lock_guard lock(memory.mutex_);
  if (--memory.access_ == 0) ::mprotect(memory.device_, kReserved, PROT_NONE);
}

void DeviceMemory::hold_freed() {
  const std::lock_guard lock(mutex_);
  holds_ = true;
}

std::vector<void*> DeviceMemory::held() {
  const std::lock_guard lock(mutex_);
  holds_ = false;
  return std::exchange(held_, {});
}

void DeviceMemory::give_back(const std::vector<void*>& freed) {
  const std::lock_guard lock(mutex_);
  for (void* const device : freed) release(device);
}

DeviceMemory::Contents DeviceMemory::contents() const {
  const std::lock_guard lock(mutex_);
  Contents all;
  for (const auto& [place, size] : live_) all[place].assign(host_ + place, host_ + place + size);
  return all;
}

void DeviceMemory::restore(const Contents& contents) {
  const std::lock_guard lock(mutex_);
  for (const auto& [place, size] : live_) {
    const auto kept = contents.find(place);
    if (kept != contents.end() && kept->second.size() == size)
      std::memcpy(host_ + place, kept->second.data(), size);
    else
      std::memset(host_ + place, 0xff, size);
  }
}

}  // namespace bv::emulation
