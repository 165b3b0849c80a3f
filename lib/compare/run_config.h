// The config of a run as a flat list of keys, so that runs can be compared key by key.
#pragma once

#include <map>
#include <set>
#include <string>

#include "lib/config/config.h"

namespace bv {

// From the path of each value ("model.width", "schedule[0][1].decay_type") to its JSON text. Equal
// values have equal JSON text, however they were written: 1e-3 and 0.001.
using FlatConfig = std::map<std::string, std::string>;

// Flattens the resolved config of a workdir. Omits null values, because null means that a key is
// absent, and keys that change no result: how the data is read in advance, and when a run logs its
// training, saves and keeps checkpoints. With `nan: rollback` the saves decide where a run returns
// to, so their keys stay.
FlatConfig flat_config(const Config& config);

// Returns the keys whose values are defaults, except those within lists. `text` is the text of the
// file; its comments say where each value comes from.
std::set<std::string> default_keys(const Config& config, const std::string& text);

// Returns the fold of cross-validation that the config's splits name: "2/5" for train[not fold 2/5]
// and train[fold 2/5]. Replaces its number by * in the splits, so that runs of different folds have
// equal configs. Returns "", and changes nothing, if no split names a fold or if several are named.
std::string take_fold(FlatConfig& config);

// Returns a value as people write it: "-" for an absent one (""), and strings without quotes unless
// they look like another value.
std::string value_text(const std::string& json);

}  // namespace bv
