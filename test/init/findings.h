// What the tests of `bvtrain init` compare of its findings.
#pragma once

#include <string>
#include <vector>

#include "lib/init/data_findings.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

// Returns the message without the folder before it.
inline std::string problem(const TempFolder& dir, const std::string& inner = "") {
  const std::string folder = inner.empty() ? dir.path() : dir / inner;
  const std::string text = error_of([&] { inspect_data(folder); });
  const std::string start = folder + ": error: ";
  return text.starts_with(start) ? text.substr(start.size()) : text;
}

inline std::vector<int64_t> counts(const DataFindings& found) {
  std::vector<int64_t> all;
  for (const FoundClass& one : found.classes) all.push_back(one.examples);
  return all;
}

using Counts = std::vector<int64_t>;
using Lines = std::vector<std::string>;

}  // namespace bv::test
