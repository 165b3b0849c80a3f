// TrainingData: what a run trains on, a data set or a mixture of several. Each has a pp string of
// its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/input/cache/decoded_images.h"
#include "lib/input/dataset.h"
#include "lib/input/example_sampler.h"
#include "lib/input/interleave.h"
#include "lib/input/pipeline.h"
#include "lib/util/rng.h"

namespace bv {

// Thread-safe after construction.
//
// A mixture has exact weights: of any first N examples of the stream, each data set gives its share
// of N, to within a few examples (Interleave). Each data set comes in passes, as if it were alone:
// all its examples come once before any comes again. A data set with a sampler takes its examples
// from the sampler, in a mixture as well as alone; size() does not change.
//
// Mixtures follow big_vision's input_pipeline.py, training(), where each position draws its data
// set at random.
class TrainingData {
 public:
  struct Part {
    std::string name;  // its key in `input.data`; "" if `input.data` is the only data set
    std::shared_ptr<const Dataset> data;
    std::shared_ptr<const Pipeline> pp;
    double weight = 1;
    std::shared_ptr<const ExampleSampler> sampler = {};  // null: shuffled passes over the data set
  };
  // An example of one of the data sets.
  struct Pick {
    size_t part = 0;
    int64_t index = 0;
    // The number of passes over the data set before this one. With a sampler: the number of earlier
    // draws divided by the size of the data set, rounded down.
    int64_t pass = 0;
  };
  // The smallest share of a data set in a mixture.
  static constexpr double kLeastShare = 1e-6;

  TrainingData(std::shared_ptr<const Dataset> data, std::shared_ptr<const Pipeline> pp);
  // The shares of the parts are their weights, divided by the sum of all weights; each share must
  // be at least kLeastShare. After pp, only the features `keep_only` stay, unless it is empty.
  explicit TrainingData(std::vector<Part> parts, std::vector<std::string> keep_only = {});

  // Keeps the decoded images of the parts whose pp begins by decoding, from open_cache() on.
  void use_cache(ImageCacheOptions options) { cache_options_ = std::move(options); }
  // Opens the cache, if there is one. All ranks call it together, once, before the first loader.
  // Throws Error(Exit::usage).
  void open_cache(Group& group) const;

  // Throws Error(Exit::usage) if a run could not open the cache now (check_cache_room()).
  void check_cache() const {
    if (cache_options_) check_cache_room(*cache_options_);
  }

  // Does Pipeline::leave_normalization() for what compute() returns. Returns nullopt for a mixture,
  // whose data sets may normalize in different ways. Call it before the first compute().
  std::optional<Normalization> leave_normalization();

  const std::vector<Part>& parts() const { return parts_; }
  bool is_mixture() const { return parts_.size() > 1; }
  // The features that stay after pp; empty: all.
  const std::vector<std::string>& keep_only() const { return keep_only_; }
  // Returns the number of examples of all data sets together, which is what an epoch means.
  int64_t size() const { return size_; }
  // Returns the example at a position of the endless training stream. A mixture is always shuffled,
  // and so is what a sampler picks.
  Pick pick(int64_t position, uint64_t seed, bool shuffled) const;
  // Returns an example that takes the place of the broken one `pick`. It is drawn from the same
  // data set: from its sampler, if it has one.
  Pick replacement(Pick pick, Rng& rng) const;
  // Returns how many of the first `positions` positions of the stream belong to each data set.
  std::vector<int64_t> examples_of_parts(int64_t positions, uint64_t seed) const;
  // Reads an example and applies its pp. Augmentation draws from Rng(seed, Purpose::augment,
  // position, {pick.index, pick.pass}).
  Example compute(const Pick& pick, uint64_t seed, int64_t position) const;
  std::string describe(const Pick& pick) const;

  // The members below are those of Dataset, for all data sets together.
  // Returns the class names of the first data set that has some. Empty if pp makes the labels from
  // another feature, whose classes have other names.
  const std::vector<std::string>& class_names() const;
  std::set<int64_t> labels_of_splits() const;
  uint64_t fingerprint() const;
  uint64_t content() const;

 private:
  Example compute_part(const Pick& pick, uint64_t seed, int64_t position) const;

  std::vector<Part> parts_;
  std::vector<std::string> keep_only_;
  int64_t size_ = 0;
  std::unique_ptr<const Interleave> mixture_;  // null for a single data set
  std::optional<ImageCacheOptions> cache_options_;
  mutable std::unique_ptr<DecodedImages> cache_;  // null until open_cache()
};

// Returns the labels of the splits of all these data sets (Dataset::labels_of_splits()); empty if
// one of them does not know its labels.
std::set<int64_t> labels_of_splits(const std::vector<std::shared_ptr<const Dataset>>& all);

// Returns the number of classes for `num_classes: auto`: the number of class names of the training
// data or, if `names` is empty, the largest label plus 1. `labels`: those of labels_of_splits().
// Throws Error(Exit::usage) at the key `num_classes` if both are empty, or if there are no names
// and a label is too large for a class number. The message says why the labels of `data` are not
// known.
int64_t count_classes(const Config& config, const std::vector<std::string>& names,
                      const std::set<int64_t>& labels,
                      const std::vector<std::shared_ptr<const Dataset>>& data);

}  // namespace bv
