#include "lib/input/pipeline.h"

#include <algorithm>
#include <set>

#include "lib/config/call.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Runs `body` and adds `place` to errors about the kind of data (Exit::usage). Errors about one
// example (Exit::data) pass through: the loader adds the example's name.
template <class Body>
void at_place(const Place& place, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() != Exit::usage) throw;
    // An error that already names a file keeps that name.
    throw Error(Exit::usage, place, error.where().empty() ? error.message() : error.what());
  }
}

bool has_byte_image(const Example& example, int64_t dimensions) {
  const auto image = example.find("image");
  return image != example.end() && image->second.scalar_type() == at::kByte &&
         image->second.dim() == dimensions;
}

}  // namespace

Pipeline::Pipeline(const Config& config, std::string_view key) : text_(config.get(key, "")) {
  attempt(config, [&] { build(parse_calls(text_, config, key)); });
  text_ = fill_constants(text_, config);
}

Pipeline::Pipeline(std::string_view text, const Place& origin) : text_(text) {
  const std::vector<Call> calls = parse_calls(text_, origin);
  build(calls);
  for (const Call& call : calls) throw_problems(call.args);
}

void Pipeline::build(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    attempt(call.args, [&] {
      steps_.push_back(
          {call.name, Op::Registry::make(call.name, call.args, call.place), call.place});
    });
  }
}

std::optional<int64_t> Pipeline::class_count() const {
  for (const Step& step : steps_) {
    if (const auto count = step.op->class_count()) return count;
  }
  return std::nullopt;
}

std::string Pipeline::made_from(std::string_view key) const {
  std::string from(key);
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (auto source = step->op->makes_from(from)) from = std::move(*source);
  }
  return from;
}

bool Pipeline::uses_data_labels(std::string_view key) const {
  const std::string from = made_from(key);
  return from == "label" || from == "labels";
}

bool Pipeline::reads_data_labels(const std::string& key) const {
  const std::set<std::string> sources = sources_of(key, nullptr);
  return sources.contains("label") || sources.contains("labels");
}

bool Pipeline::has_batched() const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.op->has_batched(); });
}

std::string Pipeline::ignores_orientation() const {
  for (const Step& step : steps_) {
    if (step.op->ignores_orientation()) return step.name;
  }
  return "";
}

std::vector<Normalization> Pipeline::normalizations() const {
  std::vector<Normalization> all;
  for (const Step& step : steps_) {
    if (const auto found = step.op->normalizes("image")) all.push_back(*found);
  }
  return all;
}

std::vector<std::string> Pipeline::random_ops() const {
  std::vector<std::string> names;
  for (const Step& step : steps_) {
    if (step.op->is_random()) names.push_back(step.name);
  }
  return names;
}

std::vector<std::string> Pipeline::ops_without_choice() const {
  std::vector<std::string> names;
  for (const Step& step : steps_) {
    if (step.op->had_no_choice()) names.push_back(step.name);
  }
  return names;
}

std::optional<Decoding> Pipeline::decodes() const {
  return steps_.empty() ? std::nullopt : steps_[0].op->decodes();
}

std::optional<Normalization> Pipeline::leave_normalization() {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (const std::optional<Normalization> found = step->op->normalizes("image")) {
      if (found->low.size() > Normalization::kMostOnDevice) return std::nullopt;
      step->left_out = true;
      return found;
    }
    if (!step->op->leaves("image")) break;
  }
  return std::nullopt;
}

void Pipeline::end_with_image() {
  while (!steps_.empty() && steps_.back().op->leaves("image")) steps_.pop_back();
  steps_.push_back(Pipeline("keep('image')", Place{}).steps_.at(0));
}

Pipeline Pipeline::only(const std::string& key) const {
  Pipeline result = *this;
  result.steps_.clear();
  result.short_side_ = 0;
  result.shrink_ = nullptr;
  sources_of(key, &result.steps_);
  return result;
}

// Returns the features of the data set that may affect the feature `key`. Adds the ops through
// which they do to `ops`, if it is not null.
std::set<std::string> Pipeline::sources_of(const std::string& key, std::vector<Step>* ops) const {
  std::set<std::string> keys = {key};  // the features that matter after `step`
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const auto left = [&](const std::string& each) { return step->op->leaves(each); };
    if (std::ranges::all_of(keys, left)) continue;
    if (ops != nullptr) ops->insert(ops->begin(), *step);
    std::set<std::string> before;
    for (const std::string& each : keys) {
      const auto from = step->op->makes_from(each);
      for (const std::string& source : from ? split(*from, '+') : std::vector{each})
        before.insert(source);
    }
    keys = std::move(before);
  }
  return keys;
}

void Pipeline::shrink_decoded(int64_t short_side) {
  const Pipeline small(fmt::format("resize_small({})", short_side), Place{});
  short_side_ = short_side;
  shrink_ = small.steps_.at(0).op;
}

at::Tensor Pipeline::decode(const Example& example) const {
  const std::optional<Decoding> how = decodes();
  if (!how) return {};
  const auto feature = example.find(how->key);
  if (feature == example.end() || feature->second.dim() != 1 ||
      feature->second.scalar_type() != at::kByte)
    return {};
  const at::Tensor file = feature->second.contiguous();
  at::Tensor image;
  try {
    image = decode_image({file.const_data_ptr<uint8_t>(), static_cast<size_t>(file.numel())}, *how);
  } catch (const Error& error) {
    // An op that decodes only a part may succeed, but its part would not be resized.
    if (error.code() != Exit::data || short_side_ > 0) throw;
    return {};
  }
  image = image.contiguous();
  if (short_side_ == 0 || std::min(image.size(0), image.size(1)) <= short_side_) return image;
  Example resized{{"image", image}};
  Rng unused(0, Purpose::augment, 0);
  shrink_->apply(resized, unused);
  return resized.at("image").contiguous();
}

bool Pipeline::decodes_later() const {
  return std::any_of(steps_.begin() + !steps_.empty(), steps_.end(),
                     [](const Step& step) { return step.op->decodes().has_value(); });
}

void Pipeline::apply(Example& example, Rng& rng) const {
  if (short_side_ > 0) {
    if (const at::Tensor image = decode(example); image.defined())
      return apply_decoded(example, image, rng);
  }
  apply_from(0, example, rng);
}

void Pipeline::apply_from(size_t first, Example& example, Rng& rng) const {
  for (size_t i = first; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.left_out && has_byte_image(example, 3)) continue;
    at_place(step.place, [&] { step.op->apply(example, rng); });
  }
}

void Pipeline::apply_decoded(Example& example, const at::Tensor& image, Rng& rng) const {
  check(!steps_.empty(), "a decoded image was given to no op");
  at_place(steps_[0].place, [&] { steps_[0].op->apply_decoded(example, image, rng); });
  apply_from(1, example, rng);
}

void Pipeline::apply_batch(Example& batch, std::span<Rng> rngs) const {
  for (const Step& step : steps_) {
    if (step.left_out && has_byte_image(batch, 4)) continue;
    at_place(step.place, [&] { step.op->apply_batch(batch, rngs); });
  }
}

}  // namespace bv
