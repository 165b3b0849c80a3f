// Objects from the text of a config.
#pragma once

#include <string>

#include "lib/config/load_config.h"

namespace bv::test {

// Parses `yaml` as if it were the file `file`, calls read(config) and returns its result. Throws
// all problems of the config as one Error.
template <class Read>
auto from_yaml(const std::string& yaml, const Read& read, const std::string& file = "t.yaml") {
  const Config config = parse_config(yaml, file);
  auto made = read(config);
  throw_problems(config);
  return made;
}

}  // namespace bv::test
