// Translates other trainers' terms into ours. If a key, a name or a flag is unknown, the error
// message uses this to say what to write instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// What to say about an unknown word. Both parts may be empty.
struct FamiliarWord {
  std::string ours;    // the key or name to write instead: a path such as "input.batch_size"
  std::string advice;  // a sentence that says it: "the length of training is 'total_epochs'"
};

// Returns the replacement for `key` in the mapping at `path` ("", "input", "evals.val"), or for an
// argument of an op ("input.pp[1]: random_crop").
FamiliarWord familiar_key(std::string_view path, std::string_view key);
// The same for a flag of the command line: "--output_dir", or "--epochs", which is a key here.
FamiliarWord familiar_flag(std::string_view flag);
// The same for the name of a plug-in of a kind ("loss", "model"), if its replacement is in `known`.
FamiliarWord familiar_name(std::string_view kind, std::string_view name,
                           const std::vector<std::string>& known);

// Returns the mapping of a well-known key: "" for the top level, "input", "evals.NAME". Returns
// nullopt if the key is not well known, or is already in the mapping at `path`.
std::optional<std::string> well_known_mapping(std::string_view path, std::string_view key);

}  // namespace bv
