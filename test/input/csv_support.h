// Helpers for the tests of the source csv.
#pragma once

#include "test/input/manifest_support.h"

namespace bv::test {

// A folder with images and the file t.csv.
struct CsvFolder : ManifestFolder {
  std::shared_ptr<const Dataset> data(const std::string& content, const std::string& rest = "",
                                      const DataEnv& env = {}) const {
    return open_file(write("t.csv", content), rest, env);
  }
  std::string problem(const std::string& content, const std::string& rest = "") const {
    return problem_of("t.csv", content, rest);
  }
  std::vector<std::string> remarks(const std::string& content, const std::string& rest = "") const {
    return remarks_of(write("t.csv", content), rest);
  }
};

// Returns the class numbers of all examples; empty if the source does not have them.
inline std::vector<int64_t> labels_of(const Dataset& data) {
  const at::Tensor labels = data.source().labels(0);
  if (!labels.defined()) return {};
  return {labels.const_data_ptr<int64_t>(), labels.const_data_ptr<int64_t>() + labels.numel()};
}

// The environment of data that may have broken examples.
inline DataEnv tolerant() {
  DataEnv env;
  env.source.keep_broken = true;
  return env;
}

}  // namespace bv::test
