#include "lib/ckpt/save_queue.h"

#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <latch>

#include "test/support/variable.h"

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

TEST_CASE("saves are left out until the budget has time for one again") {
  using std::chrono::steady_clock;
  SaveQueue queue;
  CHECK_FALSE(queue.leave_out(1));
  const int buffer = queue.free_buffer();
  // The time of the snapshot counts. This one takes the whole budget, what is added in that time,
  // and a bit more.
  const std::chrono::duration<double> debt(0.02);
  std::this_thread::sleep_for((std::chrono::duration<double>(SaveQueue::kBurst) + debt) /
                              (1 - SaveQueue::kShare));
  const auto begin = steady_clock::now();
  std::atomic<bool> done = false;
  queue.add({.work = [&] { done = true; }, .buffer = buffer, .step = 1, .may_be_left_out = true});
  CHECK(queue.leave_out(2));
  CHECK(queue.left_out() == 1);
  queue.await_all();
  CHECK(done);  // it was begun although the budget is spent
  int64_t step = 2;
  while (queue.leave_out(++step)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(steady_clock::now() - begin >= 0.5 * debt / SaveQueue::kShare);
  CHECK(queue.left_out() == step - 2);
  // A step that was left out may turn out to be the best one, and is saved after all.
  queue.add({.work = [] {}, .buffer = queue.free_buffer(), .step = step - 1});
  CHECK(queue.left_out() == step - 3);
  queue.add({.work = [] {}});
  CHECK(queue.left_out() == step - 3);
  queue.await_all();
}

TEST_CASE("with BVTRAIN_SAVE_BUDGET training waits for a slow save, and no save is left out") {
  const test::Variable large("BVTRAIN_SAVE_BUDGET", "1000");
  SaveQueue queue;
  for (int64_t step = 1; step <= 4; ++step) {
    CHECK_FALSE(queue.leave_out(step));
    const auto slow = [] {
      std::this_thread::sleep_for(std::chrono::duration<double>(0.7 * SaveQueue::kBurst));
    };
    const int buffer = queue.free_buffer();
    queue.add({.work = slow, .buffer = buffer, .step = step, .may_be_left_out = true});
  }
  queue.await_all();
  CHECK(queue.left_out() == 0);
}

TEST_CASE("the thread that saves has a lower priority than the one that starts it") {
  constexpr int kLowest = 19;
  int own = 0, saving = 0;
  std::thread training([&] {
    const int nicer = std::min(::getpriority(PRIO_PROCESS, 0) + 7, kLowest);
    CHECK(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), nicer) == 0);
    own = ::getpriority(PRIO_PROCESS, 0);
    SaveQueue queue;
    queue.add({.work = [&] { saving = ::getpriority(PRIO_PROCESS, 0); }});
    queue.await_all();
  });
  training.join();
  CHECK(saving == std::min(own + 5, kLowest));
}

TEST_CASE("the thread that saves computes alone") {
  // More compute threads would make those of the training sleep instead of waiting actively.
  SaveQueue queue;
  int threads = 0;
  queue.add({.work = [&] { threads = at::get_num_threads(); }});
  queue.await_all();
  CHECK(threads == 1);
}

}  // namespace bv
