// Models from the text of a config.
#pragma once

#include <memory>
#include <string>

#include "lib/model/model.h"
#include "test/support/config.h"

namespace bv::test {

// Builds the model `name` from its keys. Its parameters are not initialised.
inline std::unique_ptr<Model> make_model(const std::string& name, const std::string& yaml,
                                         const ModelEnv& env = {10, 32, 32, 3}) {
  return from_yaml(
      yaml, [&](const Config& config) { return Model::Registry::make(name, config, Place(), env); },
      "m.yaml");
}

}  // namespace bv::test
