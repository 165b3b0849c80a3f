// Mixup compared with the reference's arrays, and its coefficient's distribution and repeatability.
#include "lib/train/mixup.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/input/image/device_images.h"
#include "test/support/golden.h"
#include "test/support/host_reads.h"

namespace bv::test {

TEST_CASE("mixup equals the reference's") {
  const std::string file = golden_file("mixup.npz");
  if (file.empty()) return;
  const NamedTensors golden = read_npz(file);
  for (int i = 0; i < 4; ++i) {
    const std::string prefix = "mix" + std::to_string(i) + "/";
    INFO(prefix);
    const double a = golden.at(prefix + "lambda").item<double>();
    for (const char* key : {"image", "labels"}) {
      at::Tensor mixed = golden.at(prefix + key).clone();
      mix(mixed, mixup_shares(a), key);
      CHECK((mixed - golden.at(prefix + key + "_out")).abs().max().item<double>() <= 2e-7);
    }
  }
}

// Two-sample Kolmogorov-Smirnov test of 20,000 draws against the reference's 400: its critical
// value at p = 1e-3 is 1.95 sqrt((n + m) / (n m)).
TEST_CASE("the coefficient is distributed as the reference's") {
  const std::string file = golden_file("mixup.npz");
  if (file.empty()) return;
  const at::Tensor theirs = read_npz(file).at("lambda_samples_p0.2");
  constexpr int64_t kDraws = 20000;
  std::vector<float> ours;  // in float32, as the reference's, where many are 1
  for (int64_t i = 0; i < kDraws; ++i)
    ours.push_back(static_cast<float>(mixup_coefficient(11, i, 0.2)));
  std::sort(ours.begin(), ours.end());
  CHECK(ours.front() >= 0.5);
  CHECK(ours.back() <= 1.0);
  double distance = 0;
  const int64_t m = theirs.numel();
  const float* begin = theirs.const_data_ptr<float>();
  const auto share = [](auto first, auto last, auto at) {
    return static_cast<double>(at - first) / static_cast<double>(last - first);
  };
  for (const float* x = begin; x != begin + m;
       ++x) {  // at and just below each of the reference's values
    const auto [our_low, our_high] = std::equal_range(ours.begin(), ours.end(), *x);
    const auto [their_low, their_high] = std::equal_range(begin, begin + m, *x);
    for (const double d :
         {share(ours.begin(), ours.end(), our_low) - share(begin, begin + m, their_low),
          share(ours.begin(), ours.end(), our_high) - share(begin, begin + m, their_high)})
      distance = std::max(distance, std::abs(d));
  }
  CHECK(distance <= 1.95 * std::sqrt((kDraws + m) / (static_cast<double>(kDraws) * m)));
}

TEST_CASE("the coefficient is a function of seed and step") {
  CHECK(mixup_coefficient(1, 5, 0.3) == mixup_coefficient(1, 5, 0.3));
  CHECK(mixup_coefficient(1, 5, 0.3) != mixup_coefficient(1, 6, 0.3));
  CHECK(mixup_coefficient(1, 5, 0.3) != mixup_coefficient(2, 5, 0.3));
}

TEST_CASE("mixup works in place, has the same bits with any number of threads, and keeps sums") {
  const int threads = at::get_num_threads();
  at::Tensor results[2];
  for (int i = 0; i < 2; ++i) {
    at::set_num_threads(i == 0 ? 1 : 2);
    // A width that is not a multiple of any block or column size.
    at::Tensor x = at::arange(7 * 5003, at::kFloat).remainder(97).reshape({7, 5003});
    const void* memory = x.data_ptr();
    const at::Tensor before = x.clone();
    mix(x, mixup_shares(0.75), "image");
    CHECK(x.data_ptr() == memory);
    CHECK(x.sum().item<double>() == Approx(before.sum().item<double>()).epsilon(1e-5));
    CHECK((x - (0.75 * before + 0.25 * before.roll(1, 0))).abs().max().item<float>() < 1e-5);
    results[i] = x;
  }
  at::set_num_threads(threads);
  CHECK(results[0].equal(results[1]));
}

TEST_CASE("a coefficient of one, and a batch of one, change nothing") {
  at::Tensor x = at::arange(12, at::kFloat).reshape({3, 4});
  const at::Tensor before = x.clone();
  mix(x, mixup_shares(1), "image");
  CHECK(x.equal(before));
  at::Tensor one = at::arange(8, at::kFloat).reshape({1, 8});
  mix(one, mixup_shares(0.5), "image");
  CHECK(one.equal(at::arange(8, at::kFloat).reshape({1, 8})));
}

TEST_CASE("mixup's keys") {
  const Config on = parse_config("mixup: {p: 0.2, fold_in: null}", "t.yaml");
  CHECK(read_mixup(on).p == 0.2);
  CHECK(problem_count(on) == 0);
  CHECK(read_mixup(Config()).p == 0);
  const Config bad = parse_config("mixup: {p: -1, alpha: 2}", "t.yaml");
  read_mixup(bad);
  CHECK_THROWS_WITH(throw_problems(bad),
                    "t.yaml:1:12: error: mixup.p: must not be negative, got -1\n"
                    "t.yaml:1:16: error: unknown key 'mixup.alpha': this is 'p' here");
}

TEST_CASE("images that are paired with themselves give a warning") {
  const auto lines = [](const std::string& keys, int ranks, int64_t batch_size) {
    const Config config = parse_config("mixup: {" + keys + "}", "t.yaml");
    read_mixup(config, ranks, batch_size);
    return warnings(config);
  };
  using Lines = std::vector<std::string>;
  const std::string place = "t.yaml:1:8: warning: mixup: has no effect: the only image of ";
  const std::string shard = "p: 0.2, scope: shard";
  CHECK(lines(shard, 2, 2) == Lines{place + "each process is paired with itself; scope: global "
                                            "pairs those of all processes"});
  CHECK(lines(shard, 1, 1) == Lines{place + "a batch is paired with itself"});
  CHECK(lines("p: 0.2", 1, 1) == Lines{place + "a batch is paired with itself"});
  CHECK(lines(shard, 2, 4).empty());
  CHECK(lines(shard, 1, 2).empty());
  CHECK(lines("p: 0.2", 1, 2).empty());
  CHECK(lines("p: 0.2", 1, 0).empty());  // the size is not known
  CHECK(lines("p: 0, scope: shard", 2, 2).empty());
}

TEST_CASE("mixup of encoded or integer features says what to do") {
  at::Tensor image = at::zeros({2, 3}, at::kByte);
  CHECK_THROWS_WITH(mix(image, mixup_shares(0.6), "image"),
                    "[train] mixup needs float32 'image', got uint8; add value_range(-1, 1) to "
                    "input.pp");
  at::Tensor labels = at::zeros({2}, at::kLong);
  CHECK_THROWS_WITH(mix(labels, mixup_shares(0.6), "labels"),
                    "[train] mixup needs float32 'labels', got int64; add onehot(...) to input.pp");
}

TEST_CASE("images that come as bytes are normalized, then mixed") {
  const Normalization how{.low = {0}, .range = {255}, .scale = 2, .offset = -1};
  const at::Tensor bytes =
      at::arange(5 * 4 * 4 * 3).remainder(256).to(at::kByte).view({5, 4, 4, 3});
  const at::Tensor labels = at::arange(10, at::kFloat).view({5, 2});
  for (const double p : {0.0, 0.3}) {
    Batch as_bytes{{"image", bytes.clone()}, {"labels", labels.clone()}};
    Batch as_floats{{"image", normalize(bytes, how)}, {"labels", labels.clone()}};
    const at::Tensor shares = mixup_shares(mixup_coefficient(1, 2, p));
    prepare_batch({.p = p}, how, shares, as_bytes, Group::single());
    prepare_batch({.p = p}, how, shares, as_floats, Group::single());
    CHECK(as_bytes.at("image").equal(as_floats.at("image")));
    CHECK(as_bytes.at("labels").equal(as_floats.at("labels")));
    CHECK(as_bytes.at("labels").equal(labels) == (p == 0));
  }
}

TEST_CASE("images are normalized and mixed on a device without a copy from host memory") {
  const Normalization how{.low = {1, 2, 3}, .range = {255, 200, 150}, .scale = 2, .offset = -1};
  const at::Tensor bytes = at::empty({4, 5, 5, 3}, at::device(at::kMeta).dtype(at::kByte));
  const at::Tensor shares = at::empty({2}, at::device(at::kMeta).dtype(at::kFloat));
  const HostReads reads;
  plain_device_images(bytes, how, shares, bytes.narrow(0, 0, 1));
  CHECK(reads.count() == 0);
}

}  // namespace bv::test
