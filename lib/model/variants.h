// Named sizes of models: the key `variant`, and what `bvtrain --list models` shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace bv {

// A name for the arguments that make it: {"R50x3", "{depth: 50, width: 3}"}.
struct NamedVariant {
  std::string name;
  std::string yaml;  // of the config's `model`
};

// Beside Register<Model, ...>: the variants that `bvtrain --list models` shows for a model.
struct RegisterVariants {
  RegisterVariants(const std::string& model, std::vector<NamedVariant> variants);
};
// Of a model's registered name; empty where it has none.
const std::vector<NamedVariant>& variants_of(const std::string& model);

// A value of `variant`: a size and the side of a square patch.
struct SizeAndPatch {
  std::string size;   // one of the known ones
  int64_t patch = 0;  // 0: none was given
};
// The config's `variant`, "S/16" or "S"; nullopt where it is absent. Throws on an unknown size, a
// patch size that is no positive number and, where `needs_patch`, on one that is missing.
std::optional<SizeAndPatch> read_variant(const Config& config,
                                         const std::vector<std::string>& sizes, bool needs_patch);

// An integer above 0, or 0 where the text is none.
int64_t parse_positive(std::string_view text);

}  // namespace bv
