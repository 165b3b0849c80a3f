// Opening data sets from the text of their sections.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/config/load_config.h"
#include "lib/input/prepare_data.h"
#include "test/support/config.h"
#include "test/support/error.h"

namespace bv::test {

inline std::shared_ptr<const Dataset> open_data(const std::string& section,
                                                const DataEnv& env = {}) {
  return from_yaml(section,
                   [&](const Config& config) { return prepare_data(config, env); })(std::nullopt);
}

// Returns the error of open_data(), "" if there is none.
inline std::string open_error(const std::string& section, const DataEnv& env = {}) {
  return error_of([&] { open_data(section, env); });
}

}  // namespace bv::test
