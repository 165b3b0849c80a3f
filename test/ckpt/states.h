// Small training states, and checkpoints of them.
#pragma once

#include <ATen/ops/full.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/ckpt/checkpointer.h"

namespace bv::test {

// Returns a state whose numbers all equal its step. A run can continue from it.
inline Snapshot state_of(int64_t step, int64_t floats = 100) {
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.tensors["params/head/kernel"] =
      at::full({floats}, static_cast<double>(step), at::kFloat);
  snapshot.tensors["opt/count"] = at::full({}, step, at::kLong);
  snapshot.meta = {{"classes", {"cat", "dog"}}, {"step_too", step}, {"config", "lr: 0.1"}};
  snapshot.meta["compute_threads"] = 1;
  snapshot.meta["row"] = nlohmann::json::array();
  snapshot.meta["chrono"] = {{"accum_program_time", 0.5},
                             {"accum_train_time", 0.5},
                             {"accum_pause_time", 0},
                             {"accum_examples_seen", 7}};
  return snapshot;
}

inline void save_all(const Workdir& workdir, const std::vector<int64_t>& steps) {
  Checkpointer checkpointer(workdir);
  for (const int64_t step : steps) {
    checkpointer.save(state_of(step), false);
    checkpointer.wait();
  }
}

// Checks that `restored` is state_of(step).
inline void check_state(const Restored& restored, int64_t step) {
  CHECK(restored.step == step);
  REQUIRE(restored.tensors.size() == 2);
  CHECK(
      (restored.tensors.at("params/head/kernel") == static_cast<double>(step)).all().item<bool>());
  CHECK(restored.tensors.at("opt/count").item<int64_t>() == step);
  CHECK(restored.meta.at("step_too") == step);
  CHECK(restored.meta.at("classes") == nlohmann::json{"cat", "dog"});
}

}  // namespace bv::test
