// What `bvtrain init` prints: the findings as text or as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lib/init/data_findings.h"
#include "lib/init/starter_recipe.h"

namespace bv {

// Returns lines for people: kind of data, splits, classes with counts (the first and last of many)
// or targets with their range, sizes of images, broken files.
std::string findings_text(const DataFindings& found);

// Returns the findings, the recipe and the file that was written.
nlohmann::ordered_json findings_json(const DataFindings& found, const StarterRecipe& recipe,
                                     const std::string& output);

}  // namespace bv
