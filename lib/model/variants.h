// Named sizes of models: the key `variant`, and what `bvtrain --list models` shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace bv {

// A name for a set of arguments: {"R50x3", "{depth: 50, width: 3}"}.
struct NamedVariant {
  std::string name;
  std::string yaml;  // the config's `model`
};

// Registers the variants that `bvtrain --list models` shows for a model. Defined as a global next
// to the model's Register<Model, ...>.
struct RegisterVariants {
  RegisterVariants(const std::string& model, std::vector<NamedVariant> variants);
};
// Returns the variants of a registered model; empty if it has none.
const std::vector<NamedVariant>& variants_of(const std::string& model);

// A value of the key `variant`, such as "S/16" or "S".
struct SizeAndPatch {
  std::string size;
  int64_t patch = 0;  // side of the square patches; 0 if none was given
};
// Reads the key `variant`; nullopt if it is absent. `sizes` are the sizes that the model knows.
// Throws Error(Exit::usage) for an unknown size, for a patch size that is not a positive number
// and, with `needs_patch`, for a missing one.
std::optional<SizeAndPatch> read_variant(const Config& config,
                                         const std::vector<std::string>& sizes, bool needs_patch);

// Warns if `variant` is given on the command line, but the file gives all `sizes`, which override
// it. A run's config.yaml does.
void warn_of_overridden_variant(const Config& config, const std::vector<std::string>& sizes);

// Parses an integer above 0; returns 0 for any other string.
int64_t parse_positive(std::string_view text);

}  // namespace bv
