// The loader's batches: which examples, in which order, in which memory, from which threads.
#include "lib/input/loader/loader.h"

#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "lib/input/loader/check_examples.h"
#include "lib/input/shuffle.h"
#include "test/input/fake_source.h"
#include "test/support/clock.h"
#include "test/support/compare.h"

namespace bv::test {
namespace {

using std::chrono_literals::operator""ms;

constexpr uint64_t kLoaderSeed = 77;
constexpr const char* kRandomOps = "flip_lr|random_crop(4)|value_range(-1, 1)";
constexpr const char* kBatchedOps = "flip_lr|value_range(-1, 1)";  // all have a batched form

LoaderOptions loader_options(int64_t batch_size, int threads = 2) {
  LoaderOptions options;
  options.batch_size = batch_size;
  options.threads = threads;
  options.seed = kLoaderSeed;
  return options;
}

Example row(const Batch& batch, int64_t i) {
  Example example;
  for (const auto& [key, value] : batch) example[key] = value[i];
  return example;
}

// Computes the stream of examples as the header defines it.
Example expected(const Dataset& data, const Pipeline& pp, bool shuffled, int64_t position) {
  const int64_t n = data.size();
  Example example =
      data.read(shuffled ? shuffle(kLoaderSeed, position / n, position % n, n) : position % n);
  Rng rng(kLoaderSeed, Purpose::augment, static_cast<uint64_t>(position));
  pp.apply(example, rng);
  return example;
}

template <class Condition>
bool soon(const Condition& condition) {
  for (const double end = now() + kWatchdog; now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

// Returns the number of threads of this process whose name begins with `name`.
// A thread that was joined may still be among them for a moment.
int threads_named(const std::string& name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    count += comm.starts_with(name);
  }
  return count;
}

TEST_CASE("batches are the stream that the header defines, with any number of threads") {
  const bool array = GENERATE(false, true);
  const std::string ops = array ? kBatchedOps : kRandomOps;
  const auto data = dataset(std::make_shared<FakeSource>(23, array));
  const auto pp = pipeline(ops);
  REQUIRE((!array || pp->has_batched()));
  for (const bool shuffled : {true, false}) {
    for (const int64_t batch_size : {1, 7, 40}) {  // 40: more than the data
      for (const int threads : {1, 2, 8}) {
        for (const int prefetch : {0, 1, 3}) {
          LoaderOptions given = loader_options(batch_size, threads);
          given.shuffle = shuffled;
          given.prefetch = prefetch;
          Loader loader(data, pp, given);
          for (int64_t b = 0; b < 8; ++b) {
            const Batch& batch = loader.next();
            for (int64_t i = 0; i < batch_size; ++i) {
              INFO("array " << array << ", shuffled " << shuffled << ", batch size " << batch_size
                            << ", threads " << threads << ", batch " << b << ", row " << i);
              REQUIRE(same_bits(row(batch, i), expected(*data, *pp, shuffled, b * batch_size + i)));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("chunks of stacked examples give the same bits as single examples") {
  const auto pp = pipeline(kBatchedOps);
  REQUIRE(pp->has_batched());
  const auto stacked = dataset(std::make_shared<FakeSource>(701, true));
  const auto single = dataset(std::make_shared<FakeSource>(701, false));
  for (const int64_t batch_size : {9, 300, 1000}) {  // chunks of 8, 150, 256: the last is shorter
    Loader a(stacked, pp, loader_options(batch_size, 1));
    Loader b(single, pp, loader_options(batch_size, 2));
    for (int i = 0; i < 3; ++i) REQUIRE(same_bits(a.next(), b.next()));
  }
}

TEST_CASE("each epoch has every example exactly once, in its own order") {
  Loader loader(dataset(std::make_shared<FakeSource>(10)), pipeline(""), loader_options(4));
  std::vector<int64_t> stream;
  for (int b = 0; b < 5; ++b) {  // two epochs; the third batch has examples of both
    for (const int64_t label : next_labels(loader)) stream.push_back(label);
  }
  const std::vector<int64_t> first(stream.begin(), stream.begin() + 10);
  const std::vector<int64_t> second(stream.begin() + 10, stream.end());
  CHECK(std::set<int64_t>(first.begin(), first.end()).size() == 10);
  CHECK(std::set<int64_t>(second.begin(), second.end()).size() == 10);
  CHECK(first != second);
}

TEST_CASE("without shuffling the rows come in order and wrap") {
  LoaderOptions given = loader_options(4);
  given.shuffle = false;
  Loader loader(dataset(std::make_shared<FakeSource>(3)), pipeline(""), given);
  CHECK(next_labels(loader) == std::vector<int64_t>{0, 1, 2, 0});
  CHECK(next_labels(loader) == std::vector<int64_t>{1, 2, 0, 1});
}

TEST_CASE("flip_lr(alternate=True): each example comes mirrored in every second pass") {
  constexpr int64_t kSize = 400;
  const auto pp = pipeline("flip_lr(alternate=True)");
  for (const bool array : {false, true}) {
    for (const bool shuffled : {true, false}) {
      INFO("array " << array << ", shuffled " << shuffled);
      const auto data = dataset(std::make_shared<FakeSource>(kSize, array));
      LoaderOptions given = loader_options(50);
      given.shuffle = shuffled;
      Loader loader(data, pp, given);
      std::vector<int> first(kSize, -1);  // whether it was mirrored in the first pass
      for (int64_t position = 0; position < 4 * kSize; position += 50) {
        const Batch& batch = loader.next();
        for (int64_t i = 0; i < 50; ++i) {
          const int64_t index = batch_labels(batch)[i];
          const at::Tensor plain = data->read(index).at("image"), got = batch.at("image")[i];
          const bool mirrored = !got.equal(plain);
          if (mirrored) REQUIRE(got.equal(plain.flip({1})));
          const bool odd = (position + i) / kSize % 2 == 1;
          if (first[index] < 0) first[index] = mirrored;
          REQUIRE(mirrored == (first[index] != odd));
        }
      }
      const auto mirrored = std::count(first.begin(), first.end(), 1);
      CHECK(std::abs(mirrored - kSize / 2) < 50);  // 5 standard deviations
    }
  }
}

TEST_CASE("seek(b) equals running to b") {
  const auto data = dataset(std::make_shared<FakeSource>(23));
  const auto pp = pipeline(kRandomOps);
  Loader steady(data, pp, loader_options(5));
  Loader jumping(data, pp, loader_options(5));
  for (int b = 0; b < 12; ++b) {
    const Batch& batch = steady.next();
    if (b % 3 != 2) continue;  // jump ahead, then back to the batch just read
    jumping.seek(b);
    REQUIRE(same_bits(batch, jumping.next()));
    jumping.seek(b);
    REQUIRE(same_bits(batch, jumping.next()));
  }
  jumping.seek(int64_t{1} << 50);  // far ahead
  REQUIRE(same_bits(row(jumping.next(), 3), expected(*data, *pp, true, (int64_t{5} << 50) + 3)));
}

TEST_CASE("an evaluation is one pass in order, padded and masked") {
  const bool array = GENERATE(false, true);
  const auto data = dataset(std::make_shared<FakeSource>(10, array));
  const auto pp = pipeline("value_range(-1, 1)");
  for (const int prefetch : {0, 2}) {
    LoaderOptions given = loader_options(4);
    given.evaluation = true;
    given.prefetch = prefetch;
    Loader loader(data, pp, given);
    CHECK(loader.batches_per_pass() == 3);
    std::set<const void*> memory;
    for (int pass = 0; pass < 3; ++pass) {
      loader.seek(0);
      for (int64_t b = 0; b < 3; ++b) {
        const Batch& batch = loader.next();
        memory.insert(batch.at("image").data_ptr());
        REQUIRE(batch.at("_mask").scalar_type() == at::kBool);
        for (int64_t i = 0; i < 4; ++i) {
          Example example = row(batch, i);
          const bool real = 4 * b + i < 10;
          CHECK(example.at("_mask").item<bool>() == real);
          CHECK(example.at("_id").item<int64_t>() == (real ? 4 * b + i : 0));
          example.erase("_mask");
          example.erase("_id");
          Example wanted = expected(*data, *pp, false, 4 * b + i);
          if (!real) {
            for (auto& [key, value] : wanted) value = at::zeros_like(value);
          }
          CHECK(same_bits(example, wanted));
        }
      }
      CHECK_THROWS_WITH(loader.next(), "internal: error: loader: no batch 3 in a pass of 3");
    }
    CHECK(memory.size() <= static_cast<size_t>(prefetch) + 1);
  }
}

TEST_CASE("an evaluation refuses features with the names that it uses itself") {
  for (const std::string name : {"_id", "_mask"}) {
    const auto source = std::make_shared<FakeSource>(3);
    source->transform = [&](int64_t index, Example& example) {
      example[name] = at::scalar_tensor(100 + index, at::kLong);
    };
    LoaderOptions given = loader_options(2);
    given.evaluation = true;
    CHECK_THROWS_WITH(Loader(dataset(source), pipeline(""), given).next(),
                      "error: the evaluation itself uses the name '" + name +
                          "': leave this feature out with drop('" + name + "') or keep(...)");
    Loader training(dataset(source), pipeline(""), loader_options(2));
    CHECK(training.next().contains(name));
  }
}

TEST_CASE("tensors that are not contiguous are copied by value") {
  const auto source = std::make_shared<FakeSource>(5);
  source->transform = [](int64_t, Example& example) {
    example["image"] = example["image"].transpose(0, 2);
  };
  const auto data = dataset(source);
  const auto pp = pipeline("");
  Loader loader(data, pp, loader_options(5));
  const Batch& batch = loader.next();
  CHECK(batch.at("image").is_contiguous());
  for (int i = 0; i < 5; ++i) CHECK(same_bits(row(batch, i), expected(*data, *pp, true, i)));
}

TEST_CASE("there are prefetch + 1 batches in a ring, and workers go no further ahead") {
  std::atomic<int> reads = 0;
  const auto source = std::make_shared<FakeSource>(100);
  source->on_read = [&](int64_t) { ++reads; };
  for (const int prefetch : {0, 1, 2}) {
    LoaderOptions given = loader_options(4, 3);
    given.prefetch = prefetch;
    Loader loader(dataset(source), pipeline(""), given);
    reads = 0;
    std::this_thread::sleep_for(1ms);
    CHECK(reads == 0);  // threads start at the first next()
    std::set<const void*> memory;
    for (int b = 0; b < 8; ++b) {
      memory.insert(loader.next().at("image").data_ptr());
      const int allowed = 1 + 4 * (b + 1 + prefetch);  // one read is for the shapes
      CHECK(soon([&] { return reads == allowed; }));
      std::this_thread::sleep_for(1ms);
      CHECK(reads == allowed);
    }
    CHECK(memory.size() == static_cast<size_t>(prefetch) + 1);
  }
}

TEST_CASE("a slow example delays only its own batch") {
  // Example 1 is held back until everything else that prefetching allows has been read.
  std::atomic<int> reads = 0;
  std::atomic<bool> in_time = true;
  const auto source = std::make_shared<FakeSource>(100);
  source->on_read = [&](int64_t index) {
    if (index == 1) in_time = soon([&] { return reads == 12; }) && in_time;
    ++reads;
  };
  LoaderOptions given = loader_options(4, 2);
  given.shuffle = false;
  Loader loader(dataset(source), pipeline(""), given);
  CHECK(next_labels(loader) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(in_time);  // three batches without example 1, and one read for the shapes
  CHECK(next_labels(loader) == std::vector<int64_t>{4, 5, 6, 7});
}

TEST_CASE("a loader ends soon, whatever its workers do") {
  std::atomic<int> reads = 0;
  const auto source = std::make_shared<FakeSource>(1000);
  source->on_read = [&](int64_t) {
    ++reads;
    std::this_thread::sleep_for(2ms);
  };
  const auto data = dataset(source);
  const auto pp = pipeline("");
  { Loader unused(data, pp, loader_options(4)); }
  {
    Loader full(data, pp, loader_options(2));
    full.next();
    CHECK(soon([&] { return reads == 7; }));  // now all workers wait for space
  }
  CHECK(soon([] { return threads_named("bv-load-") == 0; }));
  auto busy = std::make_unique<Loader>(data, pp, loader_options(200, 2));  // 0.2 s per batch
  busy->next();
  const int before = reads;
  busy->seek(5);
  CHECK(reads <= before + 100);  // half a batch; 4 unless this thread is held up
  busy->next();
  const int later = reads;
  busy.reset();
  CHECK(reads <= later + 100);
  CHECK(soon([] { return threads_named("bv-load-") == 0; }));
}

TEST_CASE("workers have names, and LibTorch's ops start no threads within them") {
  // Large enough that LibTorch would start threads for the sum, and MKL for the product.
  const auto compute = [] {
    const at::Tensor ones = at::ones({512, 512});
    at::mm(at::add(ones, ones), ones);
  };
  compute();  // the consumer's own threads
  const auto tasks = [] { return threads_named(""); };
  const int before = tasks();
  std::atomic<int> most = 0;
  const auto source = std::make_shared<FakeSource>(50);
  std::atomic<bool> started = false;
  source->on_read = [&](int64_t) {
    if (!started) return;
    compute();
    most = std::max(most.load(), tasks());
  };
  const auto data = dataset(source);
  Loader loader(data, pipeline(""), loader_options(8, 3));
  started = true;
  for (int b = 0; b < 4; ++b) loader.next();
  CHECK(soon([] { return threads_named("bv-load-") == 3; }));  // each names itself
  CHECK(most <= before + 3);
}

TEST_CASE("first_example is example 0 after pp, as if at position 0") {
  const auto data = dataset(std::make_shared<FakeSource>(9));
  const auto pp = pipeline(kRandomOps);
  CHECK(same_bits(compute_first_example(*data, *pp, kLoaderSeed), expected(*data, *pp, false, 0)));
}

TEST_CASE("time spent waiting for data is counted") {
  const auto source = std::make_shared<FakeSource>(9);
  source->on_read = [](int64_t) { std::this_thread::sleep_for(5ms); };
  Loader loader(dataset(source), pipeline(""), loader_options(2, 1));
  CHECK(loader.wait_seconds() == 0);
  loader.next();
  CHECK(loader.wait_seconds() > 0.01);
}

}  // namespace
}  // namespace bv::test
