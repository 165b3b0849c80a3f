// Which examples a sampler picks, and how often.
#include "lib/input/example_sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "lib/input/training_data.h"
#include "test/input/fake_source.h"

namespace bv::test {
namespace {

constexpr uint64_t kOrder = 77;

// Returns shuffled labels with counts[k] examples of class k.
std::vector<int64_t> shuffled_labels(const std::vector<int64_t>& counts) {
  std::vector<int64_t> labels;
  for (size_t k = 0; k < counts.size(); ++k)
    labels.insert(labels.end(), counts[k], static_cast<int64_t>(k));
  for (size_t i = labels.size(); i > 1; --i) std::swap(labels[i - 1], labels[i * 7919 % i]);
  return labels;
}

std::vector<int64_t> picks(const ExampleSampler& sampler, int64_t count, uint64_t order = kOrder) {
  std::vector<int64_t> all(count);
  for (int64_t p = 0; p < count; ++p) all[p] = sampler.pick(order, p);
  return all;
}

// Returns Pearson's statistic of the classes of `picked` against their shares.
double chi_square(const std::vector<int64_t>& picked, const std::vector<int64_t>& labels,
                  std::vector<double> shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<double> found(shares.size());
  for (const int64_t index : picked) ++found[labels[index]];
  double statistic = 0;
  for (size_t k = 0; k < shares.size(); ++k) {
    const double expected = static_cast<double>(picked.size()) * shares[k] / sum;
    statistic += (found[k] - expected) * (found[k] - expected) / expected;
  }
  return statistic;
}

// Checks that every pass over the examples of a class contains each of them once.
void check_passes(const std::vector<int64_t>& picked, const std::vector<int64_t>& labels) {
  std::map<int64_t, std::set<int64_t>> seen;
  int64_t passes = 0;
  for (const int64_t index : picked) {
    std::set<int64_t>& own = seen[labels[index]];
    REQUIRE(own.insert(index).second);
    if (std::ssize(own) < std::count(labels.begin(), labels.end(), labels[index])) continue;
    own.clear();
    ++passes;
  }
  CHECK(passes > 0);
}

}  // namespace

TEST_CASE("balanced classes have equal shares, exactly in each block") {
  const std::vector<int64_t> labels = shuffled_labels({500, 100, 20, 3, 1});
  const auto sampler = sample_classes(labels, ClassShares::equal);
  constexpr int64_t kBlock = 1025;  // the smallest multiple of 5 from 1024 on
  const std::vector<int64_t> picked = picks(*sampler, 4 * kBlock);
  for (int64_t block = 0; block < 4; ++block) {
    std::map<int64_t, int64_t> counts;
    for (int64_t i = 0; i < kBlock; ++i) ++counts[labels[picked[block * kBlock + i]]];
    for (int64_t k = 0; k < 5; ++k) CHECK(counts[k] == kBlock / 5);
  }
  check_passes(picked, labels);
  // Within a block the classes are in random order: 99.9 % of such statistics are below 18.5.
  for (const int64_t first : {100, 300, 700}) {
    const std::vector<int64_t> some(picked.begin(), picked.begin() + first);
    CHECK(chi_square(some, labels, {1, 1, 1, 1, 1}) < 18.5);
  }
  const std::vector<int64_t> start(picked.begin(), picked.begin() + 20);
  std::set<int64_t> classes;
  for (const int64_t index : start) classes.insert(labels[index]);
  CHECK(classes.size() >= 4);
}

TEST_CASE("shares by the square root hold to within one example after each block") {
  const std::vector<int64_t> labels = shuffled_labels({900, 400, 25, 1});
  const auto sampler = sample_classes(labels, ClassShares::square_root);
  const std::vector<double> shares = {30, 20, 5, 1};
  const std::vector<int64_t> picked = picks(*sampler, 16 * 1024);
  std::vector<int64_t> counts(4);
  for (size_t p = 0; p < picked.size(); ++p) {
    ++counts[labels[picked[p]]];
    if ((p + 1) % 1024 != 0) continue;
    for (size_t k = 0; k < 4; ++k)
      CHECK(std::abs(static_cast<double>(counts[k]) -
                     static_cast<double>(p + 1) * shares[k] / 56) <= 1);
  }
  check_passes(picked, labels);
  const std::vector<int64_t> some(picked.begin(), picked.begin() + 700);
  CHECK(chi_square(some, labels, shares) < 16.3);  // 99.9 %, three degrees of freedom
}

TEST_CASE("examples without a label never come, and take no share from the classes") {
  const std::vector<int64_t> some = {0, 0, Source::kNoLabel, 0, 1, Source::kNoLabel, 0};
  for (const ClassShares shares : {ClassShares::equal, ClassShares::square_root}) {
    const std::vector<int64_t> picked = picks(*sample_classes(some, shares), 3 * 1024);
    std::map<int64_t, int64_t> counts;
    for (const int64_t index : picked) ++counts[some[index]];
    CHECK(counts.size() == 2);
    CHECK(counts[1] == (shares == ClassShares::equal ? 3 * 512 : 1024));  // 1 : 1 and 2 : 1
  }
}

TEST_CASE("random draws have the shares of the stream") {
  Rng rng(1, Purpose::shuffle, 5);
  const auto draws = [&](const ExampleSampler& sampler) {
    std::vector<int64_t> drawn(4000);
    for (int64_t& index : drawn) index = sampler.draw(rng);
    return drawn;
  };
  std::vector<int64_t> labels = shuffled_labels({900, 400, 25, 1});
  labels.insert(labels.end(), 2, Source::kNoLabel);
  for (const auto& [kind, shares] :
       {std::pair(ClassShares::equal, std::vector<double>{1, 1, 1, 1}),
        std::pair(ClassShares::square_root, std::vector<double>{30, 20, 5, 1})}) {
    const std::vector<int64_t> drawn = draws(*sample_classes(labels, kind));
    REQUIRE(std::none_of(drawn.begin(), drawn.end(),
                         [&](int64_t index) { return labels[index] == Source::kNoLabel; }));
    CHECK(chi_square(drawn, labels, shares) < 16.3);  // 99.9 %, three degrees of freedom
  }
  std::vector<int64_t> counts(4);
  for (const int64_t index : draws(*sample_weighted(std::vector<double>{0, 1, 0, 3})))
    ++counts[index];
  CHECK(counts[1] + counts[3] == 4000);
  CHECK(std::abs(counts[3] - 3000) < 110);  // four standard deviations
}

TEST_CASE("a weighted example comes in each pass as often as it is due, rounded up or down") {
  std::vector<double> weights;
  for (int i = 0; i < 200; ++i) weights.push_back(i % 10 == 0 ? 0 : 0.1 + std::abs(std::sin(i)));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto sampler = sample_weighted(weights);
  constexpr int64_t kPasses = 100;
  const std::vector<int64_t> picked = picks(*sampler, 200 * kPasses);
  std::vector<int64_t> all(200);
  for (int64_t pass = 0; pass < kPasses; ++pass) {
    std::vector<int64_t> counts(200);
    for (int64_t i = 0; i < 200; ++i) ++counts[picked[200 * pass + i]];
    for (size_t i = 0; i < 200; ++i) {
      const double due = 200 * weights[i] / sum;
      CHECK(counts[i] >= std::floor(due - 1e-9));
      CHECK(counts[i] <= std::ceil(due + 1e-9));
      all[i] += counts[i];
    }
  }
  double statistic = 0;
  for (size_t i = 0; i < 200; ++i) {
    const double due = 200 * kPasses * weights[i] / sum;
    if (weights[i] == 0)
      CHECK(all[i] == 0);
    else
      statistic += (static_cast<double>(all[i]) - due) * (static_cast<double>(all[i]) - due) / due;
  }
  CHECK(statistic < 20);  // random draws would give about 180
}

TEST_CASE("with equal weights each pass has every example once, in an order of its own") {
  for (const double weight : {1.0, 0.1, 1e-300, 1e300}) {
    const auto sampler = sample_weighted(std::vector<double>(97, weight));
    const std::vector<int64_t> picked = picks(*sampler, 3 * 97);
    for (int64_t pass = 0; pass < 3; ++pass) {
      const auto begin = picked.begin() + 97 * pass;
      CHECK(std::set<int64_t>(begin, begin + 97).size() == 97);
    }
    CHECK_FALSE(std::equal(picked.begin(), picked.begin() + 97, picked.begin() + 97));
  }
}

TEST_CASE("what a sampler picks is a function of its data, the order and the position") {
  const std::vector<int64_t> labels = shuffled_labels({50, 7});
  const std::vector<double> weights = {0.5, 0, 3, 1};
  for (const auto& make :
       {std::function([&] { return sample_classes(labels, ClassShares::equal); }),
        std::function([&] { return sample_weighted(weights); })}) {
    const auto a = make(), b = make();
    const std::vector<int64_t> stream = picks(*a, 500);
    for (const int64_t p : {499, 3, 250}) CHECK(b->pick(kOrder, p) == stream[p]);
    CHECK(picks(*b, 500, kOrder + 1) != stream);
    CHECK(a->fingerprint() == b->fingerprint());
  }
  CHECK(sample_weighted(weights)->fingerprint() !=
        sample_weighted(std::vector<double>{0.5, 0, 3, 2})->fingerprint());
  CHECK(sample_classes(labels, ClassShares::equal)->fingerprint() !=
        sample_classes(labels, ClassShares::square_root)->fingerprint());
}

TEST_CASE("far in the stream and with many classes positions keep their classes") {
  std::vector<int64_t> labels(5000);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i * i % 3001);
  const std::set<int64_t> classes(labels.begin(), labels.end());
  const auto sampler = sample_classes(labels, ClassShares::equal);
  const int64_t block = 4 * std::ssize(classes), first = 1'000'000 * block;
  std::map<int64_t, int64_t> counts;
  for (int64_t p = first; p < first + block; ++p) ++counts[labels[sampler->pick(kOrder, p)]];
  CHECK(counts.size() == classes.size());
  CHECK(std::all_of(counts.begin(), counts.end(), [](const auto& one) { return one.second == 4; }));
}

TEST_CASE("samplers belong to the data sets of a mixture, and change neither shares nor size") {
  const auto a = dataset(std::make_shared<FakeSource>(40)),
             b = dataset(std::make_shared<FakeSource>(10));
  std::vector<int64_t> labels(40, 0);
  labels[5] = 1;
  const std::shared_ptr<const ExampleSampler> balanced = sample_classes(labels, ClassShares::equal);
  const TrainingData plain({{"a", a, pipeline(""), 3}, {"b", b, pipeline(""), 1}});
  const TrainingData sampled({{"a", a, pipeline(""), 3, balanced}, {"b", b, pipeline(""), 1}});
  CHECK(sampled.size() == 50);
  CHECK(sampled.fingerprint() != plain.fingerprint());
  int64_t rare = 0, of_a = 0;
  for (int64_t p = 0; p < 4096; ++p) {
    const TrainingData::Pick was = plain.pick(p, 9, true), is = sampled.pick(p, 9, true);
    REQUIRE(is.part == was.part);
    if (is.part == 1) REQUIRE(is.index == was.index);
    of_a += is.part == 0;
    rare += is.part == 0 && is.index == 5;
  }
  CHECK(of_a == 3072);
  CHECK(rare == 1536);  // 3072 positions are three blocks of 1024
  const TrainingData alone({{"", a, pipeline(""), 1, balanced}});
  CHECK(alone.size() == 40);
  CHECK(alone.pick(1234, 9, true).index == balanced->pick(9, 1234));
}

}  // namespace bv::test
