// ExampleSampler: maps the positions of a data set's stream to examples, where some examples must
// occur more often than others.
//
// Like the shuffled passes that it replaces (TrainingData::pick()), the stream is a pure function
// of (data, order, position): nothing is drawn in advance, and there is no state to save.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/util/rng.h"

namespace bv {

// Thread-safe.
class ExampleSampler {
 public:
  virtual ~ExampleSampler() = default;
  // Returns the example at `position` of the stream, which is endless. `order` is the seed of all
  // its permutations.
  virtual int64_t pick(uint64_t order, int64_t position) const = 0;
  // Returns an example drawn at random, with the shares of the stream.
  virtual int64_t draw(Rng& rng) const = 0;
  // Returns a hash of the shares of all examples.
  virtual uint64_t fingerprint() const = 0;
};

// How the shares of classes follow from their numbers of examples.
enum class ClassShares { equal, square_root };

// Returns a sampler that gives each class its share, whatever its number of examples. The stream is
// divided into blocks, and any number of whole blocks has the share of each class, to within one
// example; with equal shares, each block has the same number of examples of every class. The
// examples of a class come in passes, as if it were alone: all come once before any comes again.
//
// labels: the class of each example, at least one; an example with Source::kNoLabel never comes.
std::unique_ptr<const ExampleSampler> sample_classes(std::span<const int64_t> labels,
                                                     ClassShares shares);

// Returns a sampler that gives each example a share in proportion to its weight. An example that is
// due x times in a pass of n positions, n being the number of examples, comes x times, rounded up
// or down, and over many passes x times on average. With equal weights each pass has every example
// once. An example of weight 0 never comes.
//
// weights: finite and not negative, with a sum that is finite and above 0.
std::unique_ptr<const ExampleSampler> sample_weighted(std::span<const double> weights);

}  // namespace bv
