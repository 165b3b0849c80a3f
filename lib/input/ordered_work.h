// Work that several threads share, and whose results are taken in order.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace bv {

// Calls work(i) for 0 <= i < count with up to `threads` threads, one of which is the calling
// thread. Calls take(i) once work(i) has returned, in ascending order and one call at a time.
// work(i) begins only after take(i - ahead) has returned.
//
// After an exception no further calls begin; the exception of the lowest i is thrown. Throws
// Stopped if a signal asks the process to stop.
void work_in_order(int64_t count, int threads, int64_t ahead,
                   const std::function<void(int64_t)>& work,
                   const std::function<void(int64_t)>& take);

// The same for work that has a result: take(i, work(i)). Keeps at most a few hundred results per
// thread at a time.
template <class Work, class Take>
void results_in_order(int64_t count, int threads, const Work& work, const Take& take) {
  const int64_t ahead = 256 * static_cast<int64_t>(threads);
  std::vector<decltype(work(int64_t{}))> results(ahead);
  work_in_order(
      count, threads, ahead, [&](int64_t i) { results[i % ahead] = work(i); },
      [&](int64_t i) { take(i, std::exchange(results[i % ahead], {})); });
}

}  // namespace bv
