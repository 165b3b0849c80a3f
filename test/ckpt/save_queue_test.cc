#include "lib/ckpt/save_queue.h"

#include <catch2/catch.hpp>
#include <latch>

namespace bv {

TEST_CASE("a save that begins while training waits for it is not left out") {
  std::latch first(1), second(1);
  SaveQueue queue;
  queue.add({.work = [&] { first.wait(); }});
  const int one = queue.free_buffer();
  queue.add({.work = [&] { second.wait(); }, .buffer = one, .step = 1, .may_be_left_out = true});
  const int other = queue.free_buffer();
  CHECK(other == 1 - one);
  queue.add({.work = [] {}, .buffer = other, .step = 2});
  std::thread releases([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    first.count_down();  // the save of step 1 begins
    // Longer than the budget lasts.
    std::this_thread::sleep_for(std::chrono::duration<double>(1.5 * SaveQueue::kBurst));
    second.count_down();
  });
  CHECK(queue.free_buffer() == one);
  releases.join();
  queue.await_all();
}

}  // namespace bv
