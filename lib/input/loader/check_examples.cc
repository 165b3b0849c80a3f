#include "lib/input/loader/check_examples.h"

#include <algorithm>
#include <optional>

#include "lib/input/loader/batch_ring.h"
#include "lib/input/loader/compute_example.h"
#include "lib/input/loader/example_failure.h"

namespace bv {

Example compute_first_example(const Dataset& data, const Pipeline& pp, uint64_t seed,
                              int64_t error_budget) {
  constexpr int64_t kMaxFailures = 10;
  if (data.size() < 1) throw Error::in("input", Exit::usage, "the data set has no examples");
  std::optional<Error> first;
  for (int64_t i = 0; i < data.size() && i <= std::min(error_budget, kMaxFailures); ++i) {
    try {
      return compute_example(data, pp, seed, i, i);
    } catch (...) {
      const ExampleFailure failure = current_failure(data, i);
      if (failure.code == Exit::data && failure.fatal) throw;  // of the config, with its place
      const Exit code = failure.code == Exit::data ? Exit::usage : failure.code;
      if (!first) first = Error::in("input", code, failure.text);
      if (failure.fatal) break;
    }
  }
  throw *first;
}

void check_more_examples(const Dataset& data, const Pipeline& pp, uint64_t seed,
                         const Example& first) {
  std::vector<std::pair<int64_t, int64_t>> chosen = data.label_bounds();  // {index, label}
  if (data.size() > 1) chosen.emplace_back(1, 0);
  BatchRing ring(first, /*batch_size=*/1, /*batches=*/1, /*evaluation=*/false);
  for (const auto& [index, label] : chosen) {
    Example example;
    try {
      example = compute_example(data, pp, seed, index, index);
    } catch (...) {
      const ExampleFailure failure = current_failure(data, index);
      if (failure.code == Exit::data && failure.fatal) throw;  // of the config, with its place
      throw Error(failure.code == Exit::data ? Exit::usage : failure.code, "", failure.text);
    }
    try {
      // pp may have dropped the labels: then nothing uses them.
      if (label < 0 && (example.contains("label") || example.contains("labels"))) {
        throw Error(Exit::data, "",
                    fmt::format("the label is {}, but class numbers begin at 0", label));
      }
      ring.write(0, 0, example);
    } catch (const Error&) {
      throw Error(Exit::usage, "", current_failure(data, index).text);
    }
  }
}

}  // namespace bv
