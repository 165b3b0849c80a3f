// Only in builds with the thread sanitizer: shows it how OpenMP's threads wait for each other.
// GCC's OpenMP is not instrumented, so without this everything before and behind a parallel region
// seems to run at the same time as the region.
//
// GCC turns `#pragma omp parallel` into a call of GOMP_parallel. Calls, also those of LibTorch,
// find this one first.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

namespace {

using Body = void (*)(void*);

struct Region {
  Body body;
  void* data;
};

void run(void* pointer) {
  __tsan_acquire(pointer);
  const auto* region = static_cast<const Region*>(pointer);
  region->body(region->data);
  __tsan_release(pointer);
}

}  // namespace

extern "C" void GOMP_parallel(Body body, void* data, unsigned threads, unsigned flags) {
  using Parallel = void (*)(Body, void*, unsigned, unsigned);
  static const auto real = reinterpret_cast<Parallel>(::dlsym(RTLD_NEXT, "GOMP_parallel"));
  Region region = {body, data};
  __tsan_release(&region);
  real(run, &region, threads, flags);
  __tsan_acquire(&region);
}
