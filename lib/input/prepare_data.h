// Opens the data set of a config section `data: {name, split, ...}`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/input/dataset.h"

namespace bv {

struct DataEnv {
  SourceEnv source;
  bool synthetic = false;  // --synthetic: generated examples in place of any source's own
  // The part of the config whose key skip_errors would keep broken files, which the list of broken
  // files then mentions: "input" or "evals.<name>". Empty: not mentioned.
  std::string skip_section = {};
};

// Builds the source that `data` names, reading its keys now but opening no file. The returned
// function opens the data set; it throws Error(Exit::usage) if that fails.
//
// With env.synthetic, `data.name` may also be a TFDS name that no source of ours has: the data is
// generated with that data set's published size if it is known.
std::function<std::shared_ptr<const Dataset>()> prepare_data(const Config& data,
                                                             const DataEnv& env);

}  // namespace bv
