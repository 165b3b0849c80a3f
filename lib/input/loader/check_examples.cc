#include "lib/input/loader/check_examples.h"

#include <algorithm>
#include <optional>
#include <set>

#include "lib/input/loader/batch_ring.h"
#include "lib/input/loader/compute_example.h"
#include "lib/input/loader/example_failure.h"
#include "lib/input/shuffle.h"
#include "lib/input/skip_hint.h"

namespace bv {
namespace {

// The number of examples with the minimum and maximum label to try if some cannot be read.
constexpr size_t kTries = 20;
constexpr const char* kComponent = "input";  // of the errors of compute_first_example()

std::string start_text(const ExampleFailure& failure, std::string_view section) {
  return failure.fatal ? failure.text() : fmt::format("{} {}", failure.text(), skip_hint(section));
}

// Returns the error of a check before the run. In such a check, bad data (Exit::data) are a mistake
// of the user (Exit::usage). `component` may be empty.
Error error_before_run(Exit code, const std::string& text, std::string_view component) {
  if (code == Exit::data) code = Exit::usage;
  return component.empty() ? Error(code, "", text) : Error::in(component, code, text);
}

// Computes example `index` and compares its form with that of others, which `ring` has.
void check_example(const Dataset& data, const Pipeline& pp, uint64_t seed, int64_t index,
                   int64_t label, const std::vector<std::string>& keep_only, BatchRing& ring) {
  Example example = compute_example(data, pp, seed, index, index);
  // pp may have dropped the labels: then nothing uses them.
  if (label < 0 && (example.contains("label") || example.contains("labels"))) {
    throw Error(Exit::usage, "",
                fmt::format("the label is {}, but class numbers begin at 0{}", label,
                            in_labels_file(data, index)));
  }
  keep_features(example, keep_only);
  ring.write(0, 0, example);
}

}  // namespace

int64_t example_to_try(int64_t i, int64_t size) {
  constexpr uint64_t kSeed = 0x7121;
  return i < 10 || size <= kMostTries ? i : shuffle(kSeed, 0, i, size);
}

Error start_error(const ExampleFailure& failure, std::string_view section,
                  std::string_view component) {
  return error_before_run(failure.code, start_text(failure, section), component);
}

Example compute_first_example(const Dataset& data, const Pipeline& pp, uint64_t seed,
                              int64_t error_budget, std::string_view section) {
  if (data.size() < 1) throw Error::in(kComponent, Exit::usage, "the data set has no examples");
  const int64_t tries = std::min(data.size(), kMostTries);
  std::optional<ExampleFailure> first;
  for (int64_t i = 0; i < tries && i <= error_budget; ++i) {
    const int64_t index = example_to_try(i, data.size());
    try {
      return compute_example(data, pp, seed, index, index);
    } catch (...) {
      const ExampleFailure failure = current_failure(data, index);
      if (failure.of_config) throw;
      if (failure.fatal)
        throw start_error(failure, section, failure.code == Exit::data ? "" : kComponent);
      if (!first) first = failure;
    }
  }
  if (error_budget < tries) throw start_error(*first, section, kComponent);
  throw error_before_run(
      first->code,
      fmt::format("{} (all {} examples that were tried failed; this is the first)", first->text(),
                  tries),
      kComponent);
}

void check_more_examples(const Dataset& data, const Pipeline& pp, uint64_t seed,
                         const Example& first, int64_t error_budget, std::string_view section,
                         const std::vector<std::string>& keep_only, bool numbers) {
  BatchRing ring(first, /*batch_size=*/1, /*batches=*/1, /*evaluation=*/false);
  // Returns whether the example can be read.
  const auto check = [&](int64_t index, int64_t label) {
    try {
      check_example(data, pp, seed, index, numbers ? 0 : label, keep_only, ring);
      return true;
    } catch (...) {
      const ExampleFailure failure = current_failure(data, index);
      if (failure.of_config) throw;
      if (failure.fatal || error_budget == 0) throw start_error(failure, section);
      return false;
    }
  };
  std::set<int64_t> checked;  // labels
  for (const auto& [index, label] : data.label_bounds(error_budget > 0 ? kTries : 1)) {
    if (!checked.contains(label) && check(index, label)) checked.insert(label);
  }
  if (data.size() > 1) check(1, 0);
}

}  // namespace bv
