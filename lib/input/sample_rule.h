// The key `sample` of training data: how often each example comes.
#pragma once

#include <memory>
#include <string>

#include "lib/config/key_table.h"
#include "lib/input/dataset.h"
#include "lib/input/example_sampler.h"

namespace bv {

inline constexpr KeyText kSampleKey = {
    "sample",
    "'uniform' | 'balanced' | 'sqrt' | map of input.sample",
    "uniform",
    "How often to draw each example. `uniform` draws each one once per pass. `balanced` draws "
    "every class equally often, `sqrt` in proportion to the square root of its number of examples, "
    "and `{weights: w}` draws each example in proportion to its feature `w`. The length of an "
    "epoch stays the same. An example of a rare class is drawn again only after all others of its "
    "class. `balanced` and `sqrt` need labels that are known without reading the images. If an "
    "example is broken and `skip_errors` allows it, its replacement is drawn with the same shares.",
    "balanced",
    "-"};

struct SampleRule {
  enum class Kind { uniform, balanced, square_root, weights } kind = Kind::uniform;
  std::string feature;  // of Kind::weights

  bool is_uniform() const { return kind == Kind::uniform; }
};

// Reads kSampleKey. Records problems with the config.
SampleRule read_sample_rule(const Config& config);

// How the examples are read to get their weights.
struct WeightReading {
  int threads = 1;
  int64_t error_budget = 0;       // how many examples may fail; they get the weight 0
  std::string section = "input";  // the part of the config with that budget
};

// Returns the sampler of a data set, null for Kind::uniform. For Kind::weights it reads all raw
// examples once, with several threads, and logs that. Throws a problem of the key `sample` of
// `config` if labels or weights cannot be used, and records warnings there.
std::shared_ptr<const ExampleSampler> make_sampler(const SampleRule& rule, const Dataset& data,
                                                   const Config& config,
                                                   const WeightReading& reading);

}  // namespace bv
