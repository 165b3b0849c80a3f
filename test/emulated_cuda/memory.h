// The memory of the emulated GPU. Its addresses cannot be read or written: host code that accesses
// one dies of SIGSEGV, as with a real GPU. The emulation itself uses a second mapping of the same
// memory. New blocks are filled with 0xff, which is NaN as floating-point numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace bv::emulation {

class DeviceMemory {
 public:
  static DeviceMemory& get();

  void* allocate(size_t bytes);  // returns a device address
  void free(void* device);
  // Converts between device addresses and those that the emulation may use. Null stays null.
  void* host(const void* device) const;
  void* device(const void* host) const;
  bool has_device(const void* address) const;
  bool has_host(const void* address) const;
  size_t bytes() const { return bytes_; }  // allocated

  // Makes device addresses usable by this thread while it exists, for kernels.
  class Access {
   public:
    Access();
    ~Access();
    Access(const Access&) = delete;
  };

  // From now on freed blocks are collected instead of reused.
  void hold_freed();
  // Ends that and returns them; give_back() makes them usable.
  std::vector<void*> held();
  void give_back(const std::vector<void*>& freed);

  // The contents of all live blocks.
  using Contents = std::map<size_t, std::vector<unsigned char>>;
  Contents contents() const;
  // Restores the contents. Newer blocks become NaN.
  void restore(const Contents& contents);

 private:
  DeviceMemory();
  size_t place(const void* device) const;
  void release(void* device);

  mutable std::recursive_mutex mutex_;
  unsigned char *device_ = nullptr, *host_ = nullptr;  // the two mappings
  size_t end_ = 0;                                     // of what was ever used
  size_t bytes_ = 0;
  std::map<size_t, size_t> live_;       // place and size of each block
  std::multimap<size_t, size_t> free_;  // size and place
  bool holds_ = false;
  std::vector<void*> held_;
  // The protection key of the device addresses, with which each thread opens them for itself; -1 if
  // the CPU has no keys. mprotect() does the same in time that grows with the memory in use.
  int key_ = -1;
  int access_ = 0;  // without a key, of all threads
};

}  // namespace bv::emulation
