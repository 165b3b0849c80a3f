#include <lib/cuda/launch.h>
#include <setjmp.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "test/emulated_cuda/memory.h"
#include "test/emulated_cuda/recording.h"

namespace bv::emulation {
namespace {

constexpr size_t kStack = 64 * 1024;  // bytes of a fiber

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kJumps = false;  // sanitizers know swapcontext() only
#else
constexpr bool kJumps = true;  // swapcontext() makes two system calls
#endif

// The fibers of one block, which take turns from one __syncthreads() to the next. They are reused
// for the threads of later blocks.
struct Fiber {
  ucontext_t context;
  jmp_buf place;  // where it continues, once it has begun
  bool begun = false;
#ifdef __SANITIZE_THREAD__
  void* tsan = __tsan_create_fiber(0);
#endif
};

struct Block {
  Fiber main;
  std::vector<Fiber> fibers{kThreads};
  std::vector<bool> done;
  std::unique_ptr<char[]> stacks{new char[kThreads * kStack]};
  size_t current = 0;
  const std::function<void()>* kernel = nullptr;
};

void run_fiber();

Block& current_block() {
  static auto* const one = [] {
    auto* const all = new Block;  // submit() runs one kernel at a time
    all->main.begun = true;
    for (size_t i = 0; i < kThreads; ++i) {
      ucontext_t& fiber = all->fibers[i].context;
      getcontext(&fiber);
      fiber.uc_stack.ss_sp = all->stacks.get() + i * kStack;
      fiber.uc_stack.ss_size = kStack;
      fiber.uc_link = nullptr;  // a fiber never ends
      makecontext(&fiber, &run_fiber, 0);
    }
    return all;
  }();
  return *one;
}

void change(Fiber& from, Fiber& to) {
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(to.tsan, 0);
#endif
  if (!kJumps) {
    swapcontext(&from.context, &to.context);
    return;
  }
  if (_setjmp(from.place) != 0) return;
  if (to.begun) _longjmp(to.place, 1);
  to.begun = true;
  setcontext(&to.context);
}

void run_fiber() {
  for (;;) {
    Block& all = current_block();
    (*all.kernel)();
    all.done[all.current] = true;
    change(all.fibers[all.current], all.main);
  }
}

}  // namespace

void run_blocks(int64_t blocks, const std::function<void()>& kernel) {
  Block& all = current_block();
  all.kernel = &kernel;
#ifdef __SANITIZE_THREAD__
  all.main.tsan = __tsan_get_current_fiber();
#endif
  synchronize_block = [] {
    change(current_block().fibers[current_block().current], current_block().main);
  };
  gridDim.x = static_cast<unsigned>(blocks);
  for (int64_t index = 0; index < blocks; ++index) {
    blockIdx.x = static_cast<unsigned>(index);
    all.done.assign(kThreads, false);
    for (size_t left = kThreads; left > 0;) {
      for (size_t i = 0; i < kThreads; ++i) {
        if (all.done[i]) continue;
        all.current = i;
        threadIdx.x = static_cast<unsigned>(i);
        change(all.main, all.fibers[i]);
        if (all.done[i]) --left;
      }
    }
  }
}

void submit_kernel(const std::function<void()>& work) {
  submit([work] {
    const DeviceMemory::Access access;
    work();
  });
}

}  // namespace bv::emulation
