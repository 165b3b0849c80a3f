// Opens the data set of a config section `data: {name, split, unknown_classes, ...}`. The other
// keys are those of the source.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/input/dataset.h"

namespace bv {

struct DataEnv {
  SourceEnv source;
  bool synthetic = false;  // --synthetic: generated examples in place of any source's own
  // For evaluators: the classes of the run. nullopt: their data has classes of its own.
  std::optional<ClassNames> classes;
  // The part of the config whose key skip_errors would keep broken files, which the list of broken
  // files then mentions: "input" or "evals.<name>". Empty: not mentioned.
  std::string skip_section = {};
};

// Opens a data set whose keys are read. Labels are renumbered by the names of `classes`, those of
// the run (Dataset::use_classes()). nullopt: the data set has classes of its own. Throws
// Error(Exit::usage), and records warnings with the config.
using OpenDataset =
    std::function<std::shared_ptr<const Dataset>(const std::optional<ClassNames>& classes)>;

// Builds the source that `data` names, reading its keys now but opening no file.
//
// With env.synthetic, `data.name` may also be a TFDS name that no source of ours has: the data is
// generated with that data set's published size if it is known.
OpenDataset prepare_data(const Config& data, const DataEnv& env);

}  // namespace bv
