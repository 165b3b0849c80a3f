#include "lib/device/compute_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <omp.h>

#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/util/error.h"

namespace bv {

void try_threads(int count) {
  std::latch end(1);
  std::vector<std::jthread> threads;  // destroyed first, which joins them
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&end] { end.wait(); });
  } catch (...) {
    end.count_down();
    throw;
  }
  end.count_down();
}

void start_compute_threads(int threads) {
  thread_local int started = 1;  // each thread that calls LibTorch has its own threads
  try {
    try_threads(threads - started);
  } catch (const std::system_error& error) {
    throw Error::bare(Exit::usage,
                      fmt::format("can't start {} threads: {}; lower the number, or raise the "
                                  "limits on processes and memory (ulimit -u, ulimit -v)",
                                  threads, error.code().message()));
  }
  at::set_num_threads(threads);
  at::parallel_for(0, threads, 1, [](int64_t, int64_t) {});  // now, before others take them
  started = threads;
}

void stay_single_threaded() {
  // at::set_num_threads() would change all threads of the process, so this uses the settings of
  // OpenMP and MKL for one thread. LibTorch overwrites these when a thread first asks for its
  // number of threads, so we do that first. MKL is looked up at run time because only some builds
  // of LibTorch contain it.
  at::get_num_threads();
  omp_set_num_threads(1);
  if (void* set = dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local")) {
    reinterpret_cast<int (*)(int)>(set)(1);
  }
}

}  // namespace bv
