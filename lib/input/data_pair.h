#pragma once

#include <string>

#include "lib/config/config.h"

namespace bv {

// The keys of two data sets, those of `input.data`.
struct DataPair {
  Config train, test;
};

// Reads `pairs`[key], a data set for few-shot classification: {train: ..., test: ...} or [source,
// train split, test split]. The key `data_dir` of a list's data sets is `folder`, unless that is
// empty; messages about them begin with "<place>.train" or "<place>.test". Throws
// Error(Exit::usage) for other values.
DataPair data_pair(const Config& pairs, const std::string& key, const std::string& folder,
                   const std::string& place);

}  // namespace bv
