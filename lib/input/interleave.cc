// In block b, part k has the positions [bound(k, b + 1) - bound(k, b), bound(k + 1, b + 1) -
// bound(k + 1, b)) of a permutation of the block, where bound(k, b) is the number of positions,
// rounded, of the parts before k in the first b blocks. So the number of a part's positions before
// a block is known without counting.
#include "lib/input/interleave.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/input/shuffle.h"
#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

// Every part has at least about this many positions in each block, regardless of rounding.
constexpr double kFewest = 4;
constexpr int64_t kLongBlock = 1 << 16;  // 1 MiB in memory

}  // namespace

Interleave::Interleave(std::span<const double> weights, int64_t block) : block_(block) {
  check(!weights.empty() && block > 0, "a stream of {} parts in blocks of {}", weights.size(),
        block);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double before = 0;
  for (const double weight : weights) {
    shares_before_.push_back(before / sum);
    before += weight;
  }
  shares_before_.push_back(1);
}

int64_t Interleave::block_for(std::span<const double> weights, int64_t smallest) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double least = *std::min_element(weights.begin(), weights.end()) / sum;
  int64_t block = smallest;
  while (static_cast<double>(block) * least < kFewest) block *= 2;
  return block;
}

Interleave::Place Interleave::at(uint64_t order, int64_t position) const {
  check(position >= 0, "position {} of a stream", position);
  return block_at(order, position / block_)->places[position % block_];
}

std::vector<int64_t> Interleave::counts(uint64_t order, int64_t positions) const {
  const int64_t number = positions / block_;
  std::vector<int64_t> counts;
  for (int64_t part = 0; part + 1 < std::ssize(shares_before_); ++part)
    counts.push_back(bound(part + 1, number) - bound(part, number));
  const auto block = block_at(order, number);
  for (int64_t i = 0; i < positions % block_; ++i) ++counts[block->places[i].part];
  return counts;
}

uint64_t Interleave::fingerprint() const {
  return hash64({reinterpret_cast<const char*>(shares_before_.data()),
                 shares_before_.size() * sizeof(double)});
}

// Returns how many of the first `block` blocks' positions belong to the parts before `part`.
int64_t Interleave::bound(int64_t part, int64_t block) const {
  if (part + 1 == std::ssize(shares_before_)) return block * block_;
  return std::llround(static_cast<double>(block * block_) * shares_before_[part]);
}

// Threads request positions in order: the last blocks are kept, so that each is computed about
// once.
std::shared_ptr<const Interleave::Block> Interleave::block_at(uint64_t order,
                                                              int64_t number) const {
  const std::lock_guard lock(mutex_);
  for (auto block = recent_.rbegin(); block != recent_.rend(); ++block) {
    if ((*block)->order == order && (*block)->number == number) return *block;
  }
  const size_t kept = block_ > kLongBlock ? 2 : 8;
  if (recent_.size() == kept) recent_.erase(recent_.begin());
  recent_.push_back(std::make_shared<const Block>(compute(order, number)));
  return recent_.back();
}

Interleave::Block Interleave::compute(uint64_t order, int64_t number) const {
  std::vector<int64_t> begins, next;  // (parts,) places in the permutation; the next index
  for (int64_t part = 0; part + 1 < std::ssize(shares_before_); ++part) {
    begins.push_back(bound(part, number + 1) - bound(part, number));
    next.push_back(bound(part + 1, number) - bound(part, number));
  }
  Block block{order, number, {}};
  block.places.reserve(block_);
  for (int64_t i = 0; i < block_; ++i) {
    const int64_t place = shuffle(order, number, i, block_);
    const int64_t part = std::upper_bound(begins.begin(), begins.end(), place) - begins.begin() - 1;
    block.places.push_back({part, next[part]++});
  }
  return block;
}

}  // namespace bv
