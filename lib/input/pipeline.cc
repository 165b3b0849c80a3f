#include "lib/input/pipeline.h"

#include <algorithm>

#include "lib/config/call.h"

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
    // An error that names a file of its own keeps that name.
    throw Error(Exit::usage, place, error.where().empty() ? error.message() : error.what());
  }
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

void Pipeline::apply(Example& example, Rng& rng) const {
  for (const Step& step : steps_) {
    at_place(step.place, [&] { step.op->apply(example, rng); });
  }
}

void Pipeline::apply_batch(Example& batch, std::span<Rng> rngs) const {
  for (const Step& step : steps_) {
    at_place(step.place, [&] { step.op->apply_batch(batch, rngs); });
  }
}

}  // namespace bv
