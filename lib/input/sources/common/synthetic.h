// Generated data: the source `synthetic`, and what --synthetic puts in other sources' places.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/input/source.h"

namespace bv {

// Every split of `splits` has form.size examples of its own. Example i is a pure function of
// (env.seed, split name, i) and of class i mod classes; classes can be told apart.
std::unique_ptr<Source> make_synthetic(const SyntheticForm& form,
                                       const std::vector<std::string>& splits,
                                       const SourceEnv& env);

}  // namespace bv
