// Computes a few examples before a run begins, so that a bad label or a wrong shape is reported
// then and not hours later.
//
// Errors that a wrong config causes keep their place in the config; errors of examples become
// Error(Exit::usage). Where skip_errors of the config's part `section` could help, they mention it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/dataset.h"
#include "lib/input/loader/example_failure.h"
#include "lib/input/pipeline.h"

namespace bv {

// How many examples are tried to find one that can be read.
inline constexpr int64_t kMostTries = 100;
// Returns the example to try after `i` others could not be read: first the first ten, then others
// from all over the data set, because broken files often lie side by side. 0 <= i < min(size,
// kMostTries); no example comes twice if size <= kMostTries.
int64_t example_to_try(int64_t i, int64_t size);

// Returns the first example after pp, as at position 0 of the stream. Goes on to another example if
// one cannot be read, for up to `error_budget` of them and kMostTries tries; then throws the first
// failure. An example with a label out of range is never skipped.
Example compute_first_example(const Dataset& data, const Pipeline& pp, uint64_t seed,
                              int64_t error_budget = 0, std::string_view section = "input");

// Computes the second example and, if the labels are known, one example with the smallest and one
// with the largest label, because these show whether all labels are in range. `first` is the first
// example. Throws if one of them fails, has a negative label or differs from `first` in keys,
// shapes or dtypes: "error: train row 500: onehot: 'label' is 10, must be within 0 .. 9". With an
// error budget, an example that cannot be read is skipped, and a few more with the same label are
// tried. Only the features `keep_only` are compared, unless it is empty. `numbers`: the labels are
// regression targets and not classes, so they may be negative.
void check_more_examples(const Dataset& data, const Pipeline& pp, uint64_t seed,
                         const Example& first, int64_t error_budget = 0,
                         std::string_view section = "input",
                         const std::vector<std::string>& keep_only = {}, bool numbers = false);

// Returns the error of an example that was computed before a run, without its place in the config.
// `component`: that of Error::in(); empty: none.
Error start_error(const ExampleFailure& failure, std::string_view section,
                  std::string_view component = "");

}  // namespace bv
