// Out of memory, for tensors and for threads.
#include "lib/device/out_of_memory.h"

#include <ATen/ops/empty.h>

#include <catch2/catch.hpp>
#include <new>

#include "lib/device/compute_threads.h"
#include "test/support/error.h"
#include "test/support/limits.h"

namespace bv::test {

TEST_CASE("LibTorch's words for too little memory are known") {
  bool known = false;
  {
    const Limit little = little_memory();
    try {
      at::empty({int64_t{1} << 30});
    } catch (const std::exception& error) {
      known = is_out_of_memory(error);
    }
  }
  CHECK(known);
  CHECK(is_out_of_memory(std::bad_alloc()));
  CHECK(is_out_of_memory(c10::Error({__func__, __FILE__, 1}, "CUDA error: out of memory")));
  CHECK_FALSE(is_out_of_memory(c10::Error({__func__, __FILE__, 1}, "a shape is wrong")));
  CHECK(is_out_of_memory(std::runtime_error("CUDA: a sum of squares: out of memory")));
  CHECK_FALSE(is_out_of_memory(std::runtime_error("out of memory")));
}

TEST_CASE("compute threads that the system does not allow are an error of the config") {
  std::string line;
  {
    const Limit little = little_memory();
    line = error_of([] { start_compute_threads(kTooManyThreads); });
  }
  CHECK(line ==
        "can't start 200 threads: Resource temporarily unavailable; lower the number, or raise the "
        "limits on processes and memory (ulimit -u, ulimit -v)");
}

}  // namespace bv::test
