// A short run of the real binary that keeps its best checkpoint.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "test/support/digits_run.h"

namespace bv::test {

// Returns the config of a run whose test loss goes up and down, because its learning rate is high.
// `evaluators` and `keys` are YAML text that is added below `evals` and at the top level.
inline std::string best_config(const std::string& evaluators = "", const std::string& keys = "") {
  return digits_config("lr: 0.05\nevals:\n") + digits_evaluator("test", {"log_steps: 2"}) +
         evaluators + "best: {metric: test/loss}\n" + keys;
}

struct BestRun : DigitsRun {
  explicit BestRun(const std::string& yaml = best_config()) : DigitsRun(yaml) {}
};

// Returns the manifest of the checkpoint in `folder`.
inline nlohmann::json manifest_of(const std::string& folder) {
  return nlohmann::json::parse(read_text(folder + "/manifest.json"));
}

// Returns why the checkpoint in `folder` is the best one: the metric, its value and the step.
inline nlohmann::json best_of(const std::string& folder) {
  return manifest_of(folder).at("meta").at("best");
}

}  // namespace bv::test
