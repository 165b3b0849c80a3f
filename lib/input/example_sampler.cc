#include "lib/input/example_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "lib/input/interleave.h"
#include "lib/input/shuffle.h"
#include "lib/input/source.h"
#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

template <class Number>
uint64_t hash_of_numbers(const std::vector<Number>& numbers) {
  return hash64({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)});
}

class ClassSampler : public ExampleSampler {
 public:
  ClassSampler(std::span<const int64_t> labels, ClassShares shares) {
    std::map<int64_t, std::vector<int64_t>> members;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != Source::kNoLabel) members[labels[i]].push_back(static_cast<int64_t>(i));
    }
    check(!members.empty(), "sampling from no examples");
    std::vector<double> weights;
    for (const auto& [label, own] : members) {
      begins_.push_back(std::ssize(examples_));
      examples_.insert(examples_.end(), own.begin(), own.end());
      orders_.push_back(hash64(fmt::format("class {}", label)));
      weights.push_back(shares == ClassShares::equal ? 1.0
                                                     : std::sqrt(static_cast<double>(own.size())));
      sums_.push_back(weights.back() + (sums_.empty() ? 0 : sums_.back()));
    }
    begins_.push_back(std::ssize(examples_));
    constexpr int64_t kSmallestBlock = 1024, kFewest = 4;
    const auto classes = std::ssize(weights);
    classes_ = std::make_unique<Interleave>(
        weights, shares == ClassShares::equal
                     ? classes * std::max(kFewest, (kSmallestBlock + classes - 1) / classes)
                     : Interleave::block_for(weights, kSmallestBlock));
  }

  int64_t pick(uint64_t order, int64_t position) const override {
    const auto [k, index] = classes_->at(order ^ hash64("sample"), position);
    const int64_t size = begins_[k + 1] - begins_[k];
    return examples_[begins_[k] + shuffle(order ^ orders_[k], index / size, index % size, size)];
  }

  int64_t draw(Rng& rng) const override {
    const auto end = std::upper_bound(sums_.begin(), sums_.end(), rng.uniform(0, sums_.back()));
    const int64_t k = std::min(end - sums_.begin(), std::ssize(sums_) - 1);
    return examples_[begins_[k] + rng.below(begins_[k + 1] - begins_[k])];
  }

  // A hash of all that the order depends on. If pick() changes, add a version to the hash.
  uint64_t fingerprint() const override {
    return hash64(fmt::format("{} {} {}", hash_of_numbers(examples_), hash_of_numbers(begins_),
                              classes_->block())) ^
           classes_->fingerprint();
  }

 private:
  std::vector<int64_t> examples_;  // class after class, by label
  std::vector<int64_t> begins_;    // (classes + 1,) where each begins in examples_
  std::vector<double> sums_;       // (classes,) the weight of each class and those before it
  std::vector<uint64_t> orders_;   // (classes,) makes the permutations of the classes differ
  std::unique_ptr<const Interleave> classes_;
};

// Systematic sampling: the examples lie end to end on a line, each as long as its weight. Position
// p of a pass takes the example at the fraction (j + offset) / n of the line, where j is the place
// of p in a permutation. The offset moves by the golden ratio from pass to pass, which spreads it
// evenly. Lengths are integers, so rounding cannot repeat or skip an example.
class WeightSampler : public ExampleSampler {
 public:
  explicit WeightSampler(std::span<const double> weights) : size_(std::ssize(weights)) {
    double sum = 0;
    for (const double weight : weights) {
      check(std::isfinite(weight) && weight >= 0, "a weight of {}", weight);
      sum += weight;
    }
    check(std::isfinite(sum) && sum > 0, "weights with the sum {}", sum);
    ends_.reserve(weights.size());
    uint64_t end = 0;
    for (int64_t i = 0; i < size_; ++i)
      ends_.push_back(end += static_cast<uint64_t>(std::llround(weights[example_at(i)] / sum *
                                                                static_cast<double>(kLength))));
  }

  int64_t pick(uint64_t order, int64_t position) const override {
    const int64_t pass = position / size_;
    const auto j = static_cast<uint64_t>(shuffle(order, pass, position % size_, size_));
    constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;  // times 2^64
    constexpr int kOffsetBits = 20;
    const uint64_t turn =
        hash64(fmt::format("offset {}", order)) + static_cast<uint64_t>(pass) * kGoldenRatio;
    const uint64_t offset = turn >> (64 - kOffsetBits);
    const uint64_t n = static_cast<uint64_t>(size_), step = ends_.back() / n;
    const uint64_t at =
        j * step + j * (ends_.back() % n) / n + offset * (step >> kOffsetBits);  // below the end
    return example_on_line(at);
  }

  int64_t draw(Rng& rng) const override {
    return example_on_line(static_cast<uint64_t>(rng.below(static_cast<int64_t>(ends_.back()))));
  }

  uint64_t fingerprint() const override { return hash_of_numbers(ends_); }

 private:
  // Returns the example at place i of the line, which is shuffled. In the order of the data, an
  // offset would select examples at regular intervals: always the same half of a class of weight
  // 1/2.
  int64_t example_at(int64_t i) const { return shuffle(kLineSeed, 0, i, size_); }
  // Returns the example that covers the point `at` of the line, which is below the line's end.
  int64_t example_on_line(uint64_t at) const {
    return example_at(std::upper_bound(ends_.begin(), ends_.end(), at) - ends_.begin());
  }

  static constexpr uint64_t kLineSeed = 0x11E5;           // never changes, so that runs repeat
  static constexpr uint64_t kLength = uint64_t{1} << 61;  // of the line, nearly
  const int64_t size_;
  std::vector<uint64_t> ends_;  // (size_,) where each example ends on the line
};

}  // namespace

std::unique_ptr<const ExampleSampler> sample_classes(std::span<const int64_t> labels,
                                                     ClassShares shares) {
  return std::make_unique<ClassSampler>(labels, shares);
}

std::unique_ptr<const ExampleSampler> sample_weighted(std::span<const double> weights) {
  check(!weights.empty(), "sampling from no examples");
  return std::make_unique<WeightSampler>(weights);
}

}  // namespace bv
