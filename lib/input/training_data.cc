#include "lib/input/training_data.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "lib/input/loader/compute_example.h"
#include "lib/input/shuffle.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Version of the order in which a mixture's examples come. Raise it when the order changes: a run
// then refuses to continue a checkpoint of another order.
constexpr uint64_t kOrderVersion = 2;
// Short, so that the shares also hold within a block to within a few examples.
constexpr int64_t kSmallestBlock = 64;
// The largest number that count_classes() accepts from data without class names. A larger label is
// probably not a class number.
constexpr int64_t kMostUnnamed = 1'000'000;

uint64_t seed_of(uint64_t seed, std::string_view what) { return seed ^ hash64(what); }

// Returns why the classes of a data set without known labels cannot be counted, judging by its
// first example: "'auto' counts classes, but ..."; "" if nothing is wrong with that one.
std::string uncountable(const Dataset& data) {
  const std::string file = data.labels_file(0);
  const std::string of = file.empty() ? "the training data" : file;
  Example example;
  try {
    example = data.read_values(0);
  } catch (const Error&) {
    return "";  // the loader reports it
  }
  const auto label = example.find("label");
  if (label == example.end()) {
    return fmt::format(
        "'auto' counts the classes in the feature 'label', but {} has none{}; give a number", of,
        file.ends_with(".npz") ? " (an array of strings is left out)" : "");
  }
  const at::Tensor& value = label->second;
  if (at::isFloatingType(value.scalar_type())) {
    return fmt::format(
        "'auto' counts classes, but the labels of {} have a decimal point, as regression targets "
        "do: for classes write 0 and not 0.0; for targets use task: regress and give their number",
        of);
  }
  // Text is 1-d uint8, but an npz file gives no text.
  if (value.dim() == 1 && value.scalar_type() == at::kByte && !file.ends_with(".npz")) {
    return fmt::format(
        "'auto' counts class numbers, but the labels of {} are strings; give a number", of);
  }
  if (value.dim() > 0) {
    return fmt::format("'auto' counts classes, but a label of {} has the shape {}; give a number",
                       of, shape_text(value.sizes()));
  }
  return "";
}

}  // namespace

TrainingData::TrainingData(std::shared_ptr<const Dataset> data, std::shared_ptr<const Pipeline> pp)
    : TrainingData(std::vector<Part>{{"", std::move(data), std::move(pp)}}) {}

TrainingData::TrainingData(std::vector<Part> parts, std::vector<std::string> keep_only)
    : parts_(std::move(parts)), keep_only_(std::move(keep_only)) {
  check(!parts_.empty(), "training data without a data set");
  std::vector<double> weights;
  for (const Part& part : parts_) {
    size_ += part.data->size();
    weights.push_back(part.weight);
  }
  if (!is_mixture()) return;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double least = *std::min_element(weights.begin(), weights.end()) / sum;
  check(least >= kLeastShare, "a share of {}", least);
  mixture_ = std::make_unique<Interleave>(weights, Interleave::block_for(weights, kSmallestBlock));
}

std::vector<int64_t> TrainingData::examples_of_parts(int64_t positions, uint64_t seed) const {
  if (!is_mixture()) return {positions};
  return mixture_->counts(seed_of(seed, "mixture"), positions);
}

TrainingData::Pick TrainingData::pick(int64_t position, uint64_t seed, bool shuffled) const {
  const auto of_stream = [&](size_t part, uint64_t order, int64_t i, bool in_random_order) {
    const int64_t size = parts_[part].data->size();
    const int64_t pass = i / size, within = i % size;
    if (parts_[part].sampler) return Pick{part, parts_[part].sampler->pick(order, i), pass};
    return Pick{part, in_random_order ? shuffle(order, pass, within, size) : within, pass};
  };
  if (!is_mixture()) return of_stream(0, seed, position, shuffled);
  const auto [part, index] = mixture_->at(seed_of(seed, "mixture"), position);
  return of_stream(part, seed_of(seed, parts_[part].name), index, true);
}

TrainingData::Pick TrainingData::replacement(Pick pick, Rng& rng) const {
  const Part& part = parts_[pick.part];
  pick.index = part.sampler ? part.sampler->draw(rng) : rng.below(part.data->size());
  return pick;
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
  std::vector<std::shared_ptr<const Dataset>> all;
  for (const Part& part : parts_) all.push_back(part.data);
  return bv::labels_of_splits(all);
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
  if (is_mixture()) add(kOrderVersion);
  for (const Part& part : parts_) {
    if (part.sampler) add(part.sampler->fingerprint());
  }
  return hash;
}

std::set<int64_t> labels_of_splits(const std::vector<std::shared_ptr<const Dataset>>& all) {
  std::set<int64_t> labels;
  for (const auto& data : all) {
    const std::set<int64_t> own = data->labels_of_splits();
    if (own.empty()) return {};  // not known for all
    labels.insert(own.begin(), own.end());
  }
  return labels;
}

int64_t count_classes(const Config& config, const std::vector<std::string>& names,
                      const std::set<int64_t>& labels,
                      const std::vector<std::shared_ptr<const Dataset>>& data) {
  if (!names.empty()) return std::ssize(names);
  const int64_t count = labels.empty() ? 0 : *labels.rbegin() + 1;
  if (count < 1 || count > kMostUnnamed) {
    for (const auto& each : data) {
      if (!labels.empty() || config.is_text("task", "regress")) break;
      if (!each->labels_of_splits().empty()) continue;
      if (const std::string why = uncountable(*each); !why.empty()) config.fail("num_classes", why);
    }
    if (count > kMostUnnamed) {
      config.fail("num_classes",
                  fmt::format("'auto', but a label is {}, so there would be {} classes: labels are "
                              "class numbers that begin at 0, not ids; if it is right, give the "
                              "number",
                              count - 1, count));
    }
    config.fail("num_classes",
                "'auto' needs training data that names its classes, or whose labels are known "
                "before its examples are read; give a number");
  }
  return count;
}

}  // namespace bv
