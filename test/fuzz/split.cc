// A split expression.
#include "lib/input/split.h"

#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(split) {
  const Place place{"t.yaml", 3, 9};
  errors_only([&] {
    for (const SplitTerm& term : parse_split(std::string(input), place)) {
      const std::vector<int64_t> shards = {3, 0, 7}, labels = {0, 1, 0, 1, 2, 2, 0, 1, 1, 5};
      for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{10}, int64_t{1} << 40}) {
        errors_only([&] {
          const auto [begin, end] = term.range(n, place, n == 10 ? shards : std::vector<int64_t>{});
          check(begin >= 0 && begin < end && end <= n, "[{}, {}) of {}", begin, end, n);
        });
      }
      if (term.part != SplitTerm::Part::fold && term.part != SplitTerm::Part::not_fold) continue;
      for (const int64_t position : fold_positions(term, 10, labels))
        check(position >= 0 && position < 10, "position {} of 10", position);
      fold_positions(term, 10, {});
    }
  });
}

}  // namespace bv::test
