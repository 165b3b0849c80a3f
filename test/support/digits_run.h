// A short run of the real binary: a small network on the digits.
#pragma once

#include <string>
#include <vector>

#include "test/support/binary.h"

namespace bv::test {

// Returns a config that trains for 20 steps, followed by `keys`, which are whole lines of YAML.
inline std::string digits_config(const std::string& keys) {
  return R"(
num_classes: 10
total_steps: 20
log_training_steps: 5
ckpt_steps: 5
input:
  data: {name: digits, split: train}
  batch_size: 64
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [4]}
loss: softmax_xent
optax_name: scale_by_adam
compute_threads: 1
)" + keys;
}

// One entry below `evals:`, a classification of `split`. `keys` are more keys of the evaluator, one
// per line, without indentation.
inline std::string digits_evaluator(const std::string& name, const std::vector<std::string>& keys,
                                    const std::string& split = "test") {
  std::string text = "  " + name + R"(:
    type: classification
    data: {name: digits, split: ")" +
                     split + R"("}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
)";
  for (const std::string& key : keys) text += "    " + key + "\n";
  return text;
}

// A config and the folder of its run.
struct DigitsRun {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  std::string workdir = dir / "out";

  explicit DigitsRun(const std::string& yaml) { write(config, yaml); }

  // Trains with the config. `flags` follow --config and --workdir.
  Finished train(const std::vector<std::string>& flags = {},
                 const Environment& environment = {}) const {
    return run(args(flags), environment);
  }
  // Trains with the config and a --set for each of `values`.
  Finished train_with(const std::vector<std::string>& values,
                      const Environment& environment = {}) const {
    std::vector<std::string> flags;
    for (const std::string& value : values) flags.insert(flags.end(), {"--set", value});
    return train(flags, environment);
  }
  // Returns the arguments of train().
  std::vector<std::string> args(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> all = {"--config", config, "--workdir", workdir};
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  }
  std::string step(int64_t n) const { return workdir + "/ckpt/step-" + std::to_string(n); }
  std::string best() const { return workdir + "/ckpt/best"; }
};

}  // namespace bv::test
