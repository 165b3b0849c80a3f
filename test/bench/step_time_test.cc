// Predicted times against values computed by hand.
#include "lib/bench/step_time.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "lib/util/rng.h"

namespace bv::test {
namespace {

// 1 GB/s and 1 ms inside a host, 0.1 GB/s and 10 ms between hosts.
Machine machine(int per_host) { return {{1e9, 1e-3}, {1e8, 1e-2}, per_host}; }

// One micro-batch of 30 s, 10 forward and 20 backward, without units.
StepWork plain(std::vector<StepWork::Gradients> gradients) {
  StepWork work;
  work.after = 10;
  work.gradients = std::move(gradients);
  return work;
}

// No latency: on 2 ranks an all-reduce of S bytes takes S / 1e9 s, other collectives half of that.
Machine fast() { return {{1e9, 0}, {}, 64}; }
// The control word: 40 bytes that are sent at the start of backward.
constexpr double kWord = 40e-9;

}  // namespace

TEST_CASE("rings on one host: 2 (N-1) messages of 1/N for an all-reduce, half as many otherwise") {
  // 4 ranks, 8 MB: 2 * 3 * (1 ms + 2 MB / 1 GB/s).
  CHECK(all_reduce_seconds(8e6, 4, machine(8)) == Approx(6 * (1e-3 + 2e-3)));
  CHECK(reduce_scatter_seconds(8e6, 4, machine(8)) == Approx(3 * (1e-3 + 2e-3)));
  CHECK(all_gather_seconds(8e6, 4, machine(8)) == Approx(3 * (1e-3 + 2e-3)));
  CHECK(all_reduce_seconds(8e6, 1, machine(8)) == 0);
  CHECK(all_gather_seconds(8e6, 1, machine(1)) == 0);
}

TEST_CASE(
    "several hosts: a ring within, one between ranks of the same position, one within again") {
  // 2 hosts of 4, 8 MB: within as above; between: 2 MB over 2 hosts, 2 * (10 ms + 1 MB / 0.1 GB/s).
  const double within = 3 * (1e-3 + 2e-3);
  CHECK(all_reduce_seconds(8e6, 8, machine(4)) == Approx(2 * within + 2 * (1e-2 + 1e-2)));
  CHECK(all_gather_seconds(8e6, 8, machine(4)) == Approx(within + 1e-2 + 1e-2));
  // One rank per host: the network only.
  CHECK(all_gather_seconds(8e6, 4, machine(1)) == Approx(3 * (1e-2 + 2e-2)));
}

TEST_CASE("all-reduces between many hosts use a tree if its latency is lower") {
  // 64 hosts of one rank, 8 bytes: a ring has 126 hops, a tree 2 * 6.
  CHECK(all_reduce_seconds(8, 64, machine(1)) == Approx(2 * (6 * 1e-2 + 8 / 1e8)));
  // 1 GB: 2 * (63 * 10 ms + 63/64 * 10 s) and 2 * (60 ms + 10 s).
  CHECK(all_reduce_seconds(1e9, 64, machine(1)) == Approx(2 * (0.06 + 10)));
  // 2 hosts: the ring sends half as much.
  CHECK(all_reduce_seconds(1e9, 2, machine(1)) == Approx(2 * (0.01 + 5)));
}

TEST_CASE("a step of one process is what it computes") {
  StepWork work = plain({{1e9, 20, false}});
  work.update = 3;
  const StepTime time = predict_step(work, 1, machine(8));
  CHECK(time.seconds == 33);
  CHECK(time.exposed == 0);
  CHECK(time.sent == 0);
}

TEST_CASE("perfect overlap, none, and the last bucket's tail") {
  // Ready after 12 s of backward, 5 s on the wire: done when backward ends at 30.
  StepTime time = predict_step(plain({{5e9, 12, false}}), 2, fast());
  CHECK(time.seconds == Approx(30));
  CHECK(time.exposed == Approx(0).margin(1e-9));
  CHECK(time.sent == Approx(5e9 + 40));
  // Ready at the end of backward: nothing overlaps.
  time = predict_step(plain({{5e9, 20, false}}), 2, fast());
  CHECK(time.seconds == Approx(35));
  CHECK(time.exposed == Approx(5));
  // Two buckets, one wire: the first from 10 + 15 to 32, the second waits for it and ends at 35.
  time = predict_step(plain({{7e9, 15, false}, {3e9, 18, false}}), 2, fast());
  CHECK(time.seconds == Approx(35));
  // The optimizer starts when all gradients are reduced.
  StepWork work = plain({{5e9, 20, false}});
  work.update = 2;
  CHECK(predict_step(work, 2, fast()).seconds == Approx(37));
}

TEST_CASE("norms and the all-gathers after the update are waited for") {
  StepWork work = plain({});
  work.norm_reduces = 2;
  work.parameter_gathers = {2e9, 4e9};  // 1 s and 2 s on two ranks
  const StepTime time = predict_step(work, 2, fast());
  CHECK(time.seconds == Approx(33 + 2 * kWord));
  CHECK(time.sent == Approx(3e9 + 3 * 40));
}

// Two units of 3 s, 4 GB each (2 s to gather or reduce-scatter on two ranks), 1 s before and after.
TEST_CASE("fsdp: a unit is gathered while the previous one computes") {
  StepWork work;
  work.units = {{3, 4e9}, {3, 4e9}};
  work.before = work.after = 1;
  StepTime time = predict_step(work, 2, fast());
  // Forward: gather 0 until 2 (1 of it beside `before`), unit 0 until 5 with gather 1 beside it,
  // unit 1 until 8, `after` until 9. Backward: 2 + 6 (gather 0 beside it) + 6 + 2.
  CHECK(time.seconds == Approx(25));
  CHECK(time.exposed == Approx(1));
  CHECK(time.sent == Approx((2 * 4e9 + 4e9) / 2 + 40));  // the last unit is gathered once

  // Gradients of unit 1 are ready when its backward ends, at 2 + 6: scattered beside unit 0's;
  // unit 0's at 14, beside `before`.
  work.gradients = {{4e9, 8, true}, {4e9, 14, true}};
  time = predict_step(work, 2, fast());
  CHECK(time.seconds == Approx(25));
  // Gathering takes longer than a unit computes: 8 GB, 4 s. Gather 0 until 4, unit 0 until 7,
  // gather 1 until 8, unit 1 until 11, 12. Backward: 2, then unit 1 until 20 with gather 0 beside.
  work.units = {{3, 8e9}, {3, 8e9}};
  work.gradients.clear();
  CHECK(predict_step(work, 2, fast()).seconds == Approx(28));
  // Parameters outside all units are gathered first, and everything waits for them.
  work.root_bytes = 2e9;
  CHECK(predict_step(work, 2, fast()).seconds == Approx(29));
}

TEST_CASE("micro-batches: all-reduces run in the last one, sharded collectives in each") {
  // 30 s as 2 * (5 + 10). The sum is ready after 6 s of the last backward, at 26: until 31.
  StepWork work = plain({{5e9, 12, false}});
  work.micro_batches = 2;
  StepTime time = predict_step(work, 2, fast());
  CHECK(time.seconds == Approx(31));
  CHECK(time.sent == Approx(5e9 + 40));
  // A unit of 4 GB alone, gathered in each part for 2 s, its sum of 2 s ready at the end of each
  // backward, the first of which the next part waits for: 2 + 15 + 2, twice.
  work = plain({{4e9, 20, true}});
  work.micro_batches = 2;
  work.after = 0;
  work.units = {{10, 4e9}};
  time = predict_step(work, 2, fast());
  CHECK(time.seconds == Approx(38));
  CHECK(time.sent == Approx(2 * (2e9 + 2e9) + 40));
  // Parameters outside all units are gathered once.
  work.root_bytes = 2e9;
  CHECK(predict_step(work, 2, fast()).sent == Approx(1e9 + 2 * (2e9 + 2e9) + 40));
}

TEST_CASE("fsdp: at most one reduce-scatter is running when the next one starts") {
  // 10 s on the wire each, ready at 1, 2 and 3 of backward: the third begins when the first is
  // done, at 10 + 11, and computing waits that long.
  const StepWork work = plain({{20e9, 1, true}, {20e9, 2, true}, {20e9, 3, true}});
  // 10 + 3 (until the third is ready) -> 21, then 17 s of backward until 38; sums until 41.
  CHECK(predict_step(work, 2, fast()).seconds == Approx(41).margin(1e-6));
  // All-reduces do not delay backward.
  const StepWork all = plain({{10e9, 1, false}, {10e9, 2, false}, {1e9, 3, false}});
  CHECK(predict_step(all, 2, fast()).seconds == Approx(32).margin(1e-6));
}

TEST_CASE("shared cores: computing takes longer, and nothing overlaps") {
  Machine shared = fast();
  shared.cores = 2;
  CHECK(shared.slowdown(1) == 1);
  CHECK(shared.slowdown(2) == 1);
  CHECK(shared.slowdown(8) == 4);
  CHECK(fast().slowdown(8) == 1);
  const StepWork work = plain({{5e9, 1, false}});
  CHECK(predict_step(work, 2, shared).seconds == Approx(35 + kWord));
  // 4 ranks: twice 30, and 2 * 3/4 * 5.
  CHECK(predict_step(work, 4, shared).seconds == Approx(60 + 7.5));
  CHECK(predict_step(work, 4, shared).exposed == Approx(7.5));
}

TEST_CASE("times are between full overlap and none, and faster links are never slower") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed, Purpose::synthetic, 0);
    StepWork work;
    for (uint64_t u = rng.below(5); u > 0; --u)
      work.units.push_back({rng.uniform(0, 1), rng.uniform(0, 1e9)});
    work.before = rng.uniform(0, 1);
    work.after = rng.uniform(0, 1);
    work.root_bytes = rng.uniform(0, 1e9);
    work.update = rng.uniform(0, 1);
    work.norm_reduces = static_cast<int>(rng.below(3));
    for (uint64_t g = rng.below(6); g > 0; --g)
      work.gradients.push_back(
          {rng.uniform(0, 1e9), rng.uniform(0, 2 * work.forward_seconds()), rng.below(2) == 0});
    std::sort(work.gradients.begin(), work.gradients.end(),
              [](const auto& a, const auto& b) { return a.ready < b.ready; });
    const int ranks = 8 << rng.below(4);
    Machine slow = machine(8), quick = slow, serial = slow;
    quick.inside.bandwidth *= 2;
    quick.between.latency /= 2;
    serial.cores = ranks;  // enough cores for all ranks, but nothing overlaps
    const double seconds = predict_step(work, ranks, slow).seconds;
    INFO(seed);
    CHECK(seconds >= work.compute_seconds() * (1 - 1e-12));
    CHECK(seconds <= predict_step(work, ranks, serial).seconds * (1 + 1e-12));
    CHECK(predict_step(work, ranks, quick).seconds <= seconds * (1 + 1e-12));
  }
}

}  // namespace bv::test
