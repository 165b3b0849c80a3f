#include "lib/device/large_blocks.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "lib/device/out_of_memory.h"
#include "test/support/limits.h"
#include "test/support/resources.h"

namespace bv::test {
namespace {

constexpr size_t kMiB = 1 << 20;

// A block whose bytes all have one value. intact() checks whether they still have it.
struct Filled {
  std::byte* block;
  size_t bytes;
  std::byte value;

  Filled(LargeBlocks& blocks, size_t size, int number)
      : block(static_cast<std::byte*>(blocks.allocate(size))),
        bytes(size),
        value(static_cast<std::byte>(number)) {
    std::memset(block, number, bytes);
  }
  bool intact() const {
    return std::all_of(block, block + bytes, [&](std::byte b) { return b == value; });
  }
};

size_t all_bytes(const LargeBlocks& blocks) {
  const auto [in_use, kept] = blocks.bytes();
  return in_use + kept;
}

}  // namespace

TEST_CASE("freed blocks are split and joined to serve the next requests") {
  LargeBlocks blocks;
  auto* const all = static_cast<std::byte*>(blocks.allocate(60 * kMiB));
  CHECK(reinterpret_cast<uintptr_t>(all) % (2 * kMiB) == 0);
  REQUIRE(blocks.free(all));
  CHECK(blocks.bytes().in_use == 0);
  CHECK(blocks.bytes().kept == 60 * kMiB);

  std::vector<std::byte*> parts;
  for (const size_t mib : {10, 2, 20, 2, 26})
    parts.push_back(static_cast<std::byte*>(blocks.allocate(mib * kMiB)));
  CHECK(parts[1] == all + 10 * kMiB);
  CHECK(parts[4] == all + 34 * kMiB);
  CHECK(blocks.bytes().kept == 0);

  for (const int i : {0, 2, 4}) CHECK(blocks.free(parts[i]));
  CHECK(blocks.allocate(18 * kMiB) == parts[2]);  // the smallest that is large enough
  CHECK(blocks.allocate(9 * kMiB) == parts[0]);
  for (const int i : {2, 1, 3, 0}) CHECK(blocks.free(parts[i]));
  CHECK(blocks.allocate(60 * kMiB) == all);
}

TEST_CASE("a size that no memory has is refused") {
  LargeBlocks blocks;
  blocks.free(blocks.allocate(2 * kMiB));
  CHECK(blocks.allocate(std::numeric_limits<size_t>::max()) == nullptr);
  CHECK(blocks.allocate(std::numeric_limits<ptrdiff_t>::max()) == nullptr);
  CHECK(blocks.bytes().in_use == 0);
}

TEST_CASE("freed blocks never make a process much larger than its tensors did") {
  LargeBlocks blocks;
  std::mt19937 random(7);
  std::vector<Filled> live;
  size_t in_use = 0, peak = 0;
  for (int i = 0; i < 400; ++i) {
    if (live.size() < 2 || (live.size() < 12 && random() % 2 == 0)) {
      live.emplace_back(blocks, kMiB + random() % (6 * kMiB), i);
    } else {
      std::swap(live[random() % live.size()], live.back());
      REQUIRE(live.back().intact());
      REQUIRE(blocks.free(live.back().block));
      live.pop_back();
    }
    in_use = blocks.bytes().in_use;
    peak = std::max(peak, in_use);
    REQUIRE(all_bytes(blocks) <= peak + peak / 4 + 2 * kMiB);
  }
  CHECK(peak > 20 * kMiB);
  blocks.release();
  CHECK(all_bytes(blocks) == in_use);
  for (const Filled& each : live) CHECK(each.intact());
  CHECK(std::all_of(live.begin(), live.end(), [&](auto& each) { return blocks.free(each.block); }));
}

TEST_CASE("after a release small blocks do not keep as much as large ones did before") {
  LargeBlocks blocks;
  blocks.free(blocks.allocate(100 * kMiB));
  blocks.release();
  CHECK(all_bytes(blocks) == 0);
  for (int i = 1; i <= 10; ++i) blocks.free(blocks.allocate(static_cast<size_t>(i) * 2 * kMiB));
  CHECK(all_bytes(blocks) <= 27 * kMiB);
}

TEST_CASE("a release gives the memory back to the system") {
  if (kSanitized) return;
  LargeBlocks blocks;
  const double before = resident_mib();
  const Filled block(blocks, 200 * kMiB, 1);
  CHECK(resident_mib() > before + 190);
  blocks.free(block.block);
  CHECK(resident_mib() > before + 190);
  blocks.release();
  CHECK(resident_mib() < before + 10);
}

TEST_CASE("small blocks share huge pages, and join") {
  LargeBlocks blocks;
  void* const first = blocks.allocate(kMiB);
  CHECK(blocks.bytes().kept == kMiB);
  void* const second = blocks.allocate(kMiB);
  CHECK(second == static_cast<std::byte*>(first) + kMiB);
  blocks.free(first);
  blocks.free(second);
  CHECK(blocks.allocate(2 * kMiB) == first);
}

TEST_CASE("a block that is not a large one is left alone") {
  LargeBlocks blocks;
  void* const block = blocks.allocate(kMiB);
  int other = 0;
  CHECK_FALSE(blocks.free(&other));
  CHECK_FALSE(blocks.free(static_cast<std::byte*>(block) + 64));
  CHECK(blocks.free(block));
  CHECK_FALSE(blocks.free(block));  // freed already
}

TEST_CASE("threads never get the same large block") {
  LargeBlocks blocks;
  std::atomic<int> broken = 0;
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Filled a(blocks, kMiB, t), b(blocks, 2 * kMiB, 10 * t);
        if (!a.intact() || !b.intact()) ++broken;
        if (!blocks.free(a.block) || !blocks.free(b.block)) ++broken;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(broken == 0);
  CHECK(blocks.bytes().in_use == 0);
}

TEST_CASE("no memory for a large block gives null, and what was there stays") {
  if (kSanitized) return;
  LargeBlocks blocks;
  const Filled kept(blocks, 8 * kMiB, 3);
  const Limit limit = little_memory();
  CHECK(blocks.allocate(1000 * kMiB) == nullptr);
  CHECK(blocks.bytes().in_use == 8 * kMiB);
  CHECK(kept.intact());
}

TEST_CASE("LibTorch's large tensors take the memory of freed ones") {
  if (kSanitized) return;  // they have their own allocator
  keep_large_tensors();
  for (const int64_t mib : {1, 20, 100}) {
    // The first tensor needs new pages, and so do other tensors that tests have left.
    long least = std::numeric_limits<long>::max();
    for (int i = 0; i < 20; ++i) {
      const long before = page_faults();
      const at::Tensor ones = at::ones({mib << 18}, at::kFloat);
      if (i == 19) CHECK(ones.sum().item<float>() == static_cast<float>(mib << 18));
      // LargeBlocks' addresses are multiples of 256 KiB.
      CHECK(reinterpret_cast<uintptr_t>(ones.data_ptr()) % (256 << 10) == 0);
      least = std::min(least, page_faults() - before);
    }
    INFO(mib << " MiB");
    CHECK(least < 10);  // new pages of 2 MiB would take 50 for 100 MiB
  }
  at::Tensor grown = at::full({100}, 5.0F);
  grown.resize_({4 << 20});
  CHECK(grown[99].item<float>() == 5.0F);
  grown.resize_({100});
  CHECK(grown.sum().item<float>() == 500.0F);
  // What oneDNN does.
  at::Allocator& allocator = *c10::GetCPUAllocator();
  for (const size_t bytes : {size_t{100}, 3 * kMiB}) {
    void* const raw = allocator.raw_allocate(bytes);
    std::memset(raw, 1, bytes);
    allocator.raw_deallocate(raw);
  }
  at::zeros({0}, at::kFloat);
}

TEST_CASE("a large tensor for which there is no memory says so in LibTorch's words") {
  if (kSanitized) return;
  keep_large_tensors();
  const Limit limit = little_memory();
  try {
    at::empty({1000 << 18}, at::kFloat);
    FAIL("there was memory");
  } catch (const std::exception& error) {
    INFO(error.what());
    CHECK(is_out_of_memory(error));
  }
}

}  // namespace bv::test
