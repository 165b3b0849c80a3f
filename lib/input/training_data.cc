// How a position in a mixture maps to its example. The stream is divided into blocks of `block_`
// positions. In block b, part k has the positions [bound(k, b + 1) - bound(k, b), bound(k + 1,
// b + 1) - bound(k + 1, b)) of a permutation of the block, where bound(k, b) is the number of
// examples of the parts before k in the first b blocks, rounded. So the shares are exact after
// every block, and the number of a part's examples before a block is known without counting.
#include "lib/input/training_data.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/input/loader/compute_example.h"
#include "lib/input/shuffle.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr int64_t kSmallestBlock = 1024;

uint64_t seed_of(uint64_t seed, std::string_view what) { return seed ^ hash64(what); }

}  // namespace

TrainingData::TrainingData(std::shared_ptr<const Dataset> data, std::shared_ptr<const Pipeline> pp)
    : TrainingData(std::vector<Part>{{"", std::move(data), std::move(pp)}}) {}

TrainingData::TrainingData(std::vector<Part> parts, std::vector<std::string> keep_only)
    : parts_(std::move(parts)), keep_only_(std::move(keep_only)) {
  check(!parts_.empty(), "training data without a data set");
  double sum = 0, least = parts_[0].weight;
  for (const Part& part : parts_) {
    size_ += part.data->size();
    sum += part.weight;
    least = std::min(least, part.weight);
  }
  check(least / sum >= kLeastShare, "a share of {}", least / sum);
  double before = 0;
  for (const Part& part : parts_) {
    shares_before_.push_back(before / sum);
    before += part.weight;
  }
  shares_before_.push_back(1);
  // Long enough that every part has a few positions in each block, regardless of rounding.
  for (block_ = kSmallestBlock; static_cast<double>(block_) * least / sum < 4;) block_ *= 2;
}

// Returns how many of the first `block` blocks' positions belong to the parts before `part`.
int64_t TrainingData::bound(size_t part, int64_t block) const {
  if (part == parts_.size()) return block * block_;
  return std::llround(static_cast<double>(block * block_) * shares_before_[part]);
}

// The positions of each block are shuffled. Returns the place of `position` after that, from 0 to
// block_ - 1.
int64_t TrainingData::place_in_block(int64_t position, uint64_t seed) const {
  return shuffle(seed_of(seed, "mixture"), position / block_, position % block_, block_);
}

// Returns the data set that has this place in the permuted block.
size_t TrainingData::part_at(int64_t block, int64_t place) const {
  size_t part = 0;
  while (bound(part + 1, block + 1) - bound(part + 1, block) <= place) ++part;
  return part;
}

std::vector<int64_t> TrainingData::examples_of_parts(int64_t positions, uint64_t seed) const {
  if (!is_mixture()) return {positions};
  const int64_t block = positions / block_;
  std::vector<int64_t> counts;
  for (size_t part = 0; part < parts_.size(); ++part)
    counts.push_back(bound(part + 1, block) - bound(part, block));
  for (int64_t position = block * block_; position < positions; ++position)
    ++counts[part_at(block, place_in_block(position, seed))];
  return counts;
}

TrainingData::Pick TrainingData::pick(int64_t position, uint64_t seed, bool shuffled) const {
  const auto of_stream = [&](size_t part, uint64_t order, int64_t i, bool in_random_order) {
    const int64_t size = parts_[part].data->size();
    const int64_t pass = i / size, within = i % size;
    if (parts_[part].sampler) return Pick{part, parts_[part].sampler->pick(order, i), pass};
    return Pick{part, in_random_order ? shuffle(order, pass, within, size) : within, pass};
  };
  if (!is_mixture()) return of_stream(0, seed, position, shuffled);
  const int64_t block = position / block_;
  const int64_t place = place_in_block(position, seed);
  const size_t part = part_at(block, place);
  const int64_t begin = bound(part, block + 1) - bound(part, block);
  const int64_t before = bound(part + 1, block) - bound(part, block);
  return of_stream(part, seed_of(seed, parts_[part].name), before + place - begin, true);
}

Example TrainingData::compute(const Pick& pick, uint64_t seed, int64_t position) const {
  Example example = compute_part(pick, seed, position);
  keep_features(example, keep_only_);
  return example;
}

// The same as compute(), with all features.
Example TrainingData::compute_part(const Pick& pick, uint64_t seed, int64_t position) const {
  const Part& part = parts_[pick.part];
  if (!cache_) return compute_example(*part.data, *part.pp, seed, position, pick.index, pick.pass);
  Example example = part.data->read(pick.index);
  Rng rng(seed, Purpose::augment, static_cast<uint64_t>(position), {pick.index, pick.pass});
  const at::Tensor image = cache_->image(pick.part, example);
  if (image.defined())
    part.pp->apply_decoded(example, image, rng);
  else
    part.pp->apply(example, rng);
  return example;
}

std::optional<Normalization> TrainingData::leave_normalization() {
  if (is_mixture()) return std::nullopt;
  const auto pp = std::make_shared<Pipeline>(*parts_[0].pp);  // other users are not affected
  const std::optional<Normalization> left = pp->leave_normalization();
  parts_[0].pp = pp;
  return left;
}

void TrainingData::open_cache(Group& group) const {
  if (!cache_options_) return;
  check(!cache_, "the cache of decoded images was opened twice");
  DecodedImages::Data data{.fingerprint = fingerprint()};
  for (const Part& part : parts_) {
    data.pps.push_back(part.pp);
    if (part.pp->decodes()) data.images += part.data->size();
  }
  cache_ = std::make_unique<DecodedImages>(*cache_options_, std::move(data), group);
}

std::string TrainingData::describe(const Pick& pick) const {
  return parts_[pick.part].data->describe(pick.index);
}

const std::vector<std::string>& TrainingData::class_names() const {
  static const std::vector<std::string> none;
  for (const Part& part : parts_) {
    const std::vector<std::string>& names = part.data->class_names();
    if (!names.empty()) return part.pp->uses_data_labels() ? names : none;
  }
  return none;
}

std::set<int64_t> TrainingData::labels_of_splits() const {
  std::set<int64_t> all;
  for (const Part& part : parts_) {
    const std::set<int64_t> own = part.data->labels_of_splits();
    if (own.empty()) return {};  // not known for all
    all.insert(own.begin(), own.end());
  }
  return all;
}

uint64_t TrainingData::content() const {
  std::string hashes;
  for (const Part& part : parts_) hashes += fmt::format("{:016x}", part.data->content());
  return hash64(hashes);
}

uint64_t TrainingData::fingerprint() const {
  uint64_t hash = parts_[0].data->fingerprint();
  const auto add = [&](uint64_t next) {
    const std::array<uint64_t, 2> both = {hash, next};
    hash = hash64({reinterpret_cast<const char*>(both.data()), sizeof(both)});
  };
  for (size_t i = 1; i < parts_.size(); ++i) add(parts_[i].data->fingerprint());
  for (const Part& part : parts_) {
    if (part.sampler) add(part.sampler->fingerprint());
  }
  return hash;
}

}  // namespace bv
