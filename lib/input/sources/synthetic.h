// Generated data: for the source `synthetic` and for --synthetic, which replaces other sources by
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/input/source.h"

namespace bv {

// Returns a source with `splits`, each with its own spec.size examples. Example i is a pure
// function of (env.seed, split name, i) and belongs to class i mod classes. The classes can be told
// apart, so a model can learn them.
std::unique_ptr<Source> make_synthetic(const SyntheticSpec& spec,
                                       const std::vector<std::string>& splits,
                                       const SourceEnv& env);

}  // namespace bv
