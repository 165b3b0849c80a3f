// Memory that ends the program with SIGSEGV on reads or writes outside it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>

namespace bv::test {

// The side of the inaccessible page.
enum class Guard { before, behind };

template <class T>
class Guarded {
 public:
  Guarded(size_t count, T value, Guard guard) : count_(count) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t inside = std::max<size_t>((count * sizeof(T) + page - 1) / page, 1) * page;
    bytes_ = inside + 2 * page;
    void* const all =
        ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<std::byte*>(all);
    std::byte* const first = all_ + page;
    ::mprotect(first, inside, PROT_READ | PROT_WRITE);
    std::byte* const begin = guard == Guard::before ? first : first + inside - count * sizeof(T);
    data_ = reinterpret_cast<T*>(begin);
    std::fill_n(data_, count, value);
  }
  ~Guarded() { ::munmap(all_, bytes_); }
  Guarded(const Guarded&) = delete;

  T* data() const { return data_; }
  std::span<T> values() const { return {data_, count_}; }

 private:
  size_t count_, bytes_;
  std::byte* all_;
  T* data_;
};

}  // namespace bv::test
