// Interleave: divides an endless stream among parts, such as the data sets of a mixture or the
// classes of a data set. Each part gets its share of the positions.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace bv {

// The stream is a sequence of blocks, and the positions of a block are in random order. Each block
// has the shares of all parts, rounded so that any number of whole blocks has them to within one
// position. Which part has a position is a pure function of (order, position): there is no state to
// save. Thread-safe.
class Interleave {
 public:
  struct Place {
    int64_t part = 0;
    int64_t index = 0;  // the number of earlier positions of the part
  };

  // weights: at least one, all positive. A part's share is its weight divided by their sum. In a
  // block of `block` positions each part should have a few; block_for() returns such a length.
  Interleave(std::span<const double> weights, int64_t block);

  // Returns the smallest `smallest` times a power of two in which each part has a few positions.
  static int64_t block_for(std::span<const double> weights, int64_t smallest);

  // Returns what is at `position` of the stream. `order` is the seed of the random order.
  Place at(uint64_t order, int64_t position) const;
  // Returns how many of the first `positions` positions each part has.
  std::vector<int64_t> counts(uint64_t order, int64_t positions) const;

  int64_t block() const { return block_; }
  // Returns a hash of the shares.
  uint64_t fingerprint() const;

 private:
  struct Block {
    uint64_t order = 0;
    int64_t number = 0;
    std::vector<Place> places;  // (block_,)
  };

  int64_t bound(int64_t part, int64_t block) const;
  std::shared_ptr<const Block> block_at(uint64_t order, int64_t number) const;
  Block compute(uint64_t order, int64_t number) const;

  int64_t block_ = 1;
  std::vector<double> shares_before_;  // (parts + 1,) the sum of the shares of the parts before
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Block>> recent_;  // guarded by mutex_
};

}  // namespace bv
