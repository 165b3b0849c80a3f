// The commented YAML file that `bvtrain init` writes.
#pragma once

#include <string>

#include "lib/init/data_findings.h"
#include "lib/init/pretrained.h"
#include "lib/init/starter_recipe.h"

namespace bv {

// Returns the command that trains the file `output`: "bvtrain --config photos.yaml --workdir
// out/photos", quoted for a shell where necessary. The workdir is ../out/photos if out/photos would
// be read as a class of the data.
std::string training_command(const DataFindings& found, const std::string& output);

// Returns the config. `pretrained` may be null.
std::string recipe_yaml(const DataFindings& found, const StarterRecipe& recipe,
                        const PretrainedModel* pretrained, const std::string& output);

// Writes a file that does not exist yet. Throws Error(Exit::usage) at `output` if it exists, and
// Error(Exit::storage) if it cannot be written; no part of it is then left.
void write_new_file(const std::string& output, const std::string& content);

}  // namespace bv
