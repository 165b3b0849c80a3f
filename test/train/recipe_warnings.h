// The warnings that a run gives at its start. The configs are read in this process, as in a run
// with --explain.
#pragma once

#include <string>
#include <vector>

#include "lib/config/load_config.h"
#include "lib/train/recipe.h"

namespace bv::test {

using Lines = std::vector<std::string>;

// The end of a pp, which makes labels.
inline const std::string kLabels =
    R"(|onehot(num_classes, key="label", key_result="labels")|keep("image", "labels"))";

// Returns the text of a config without evaluators.
inline std::string config_text(const std::string& data, const std::string& pp) {
  return "num_classes: auto\ntotal_steps: 1\nlog_training_steps: 1\ninput:\n  batch_size: 2\n  "
         "data: " +
         data + "\n  pp: " + pp + kLabels +
         "\nmodel_name: cnn\nmodel: {widths: [], dense: 8}\nloss: softmax_xent\noptax_name: sgd\n"
         "lr: 0.1\n";
}

// Returns the warnings of a run with the config `text`.
inline Lines warnings_of(const std::string& text) {
  const Config config = parse_config(text, "x.yaml");
  const Recipe recipe(config, /*synthetic=*/false, /*meta=*/true);
  return warnings(config);
}

// Returns the warnings of a run on `data`. `pp` and `pp_fn` make no labels. Without `eval_data` and
// `pp_fn` there is no evaluator. `pp` is in x.yaml:7:7 and `pp_fn` in x.yaml:17:12.
inline Lines warnings_of(const std::string& data, const std::string& pp,
                         const std::string& eval_data = "", const std::string& pp_fn = "") {
  std::string text = config_text(data, pp);
  if (!pp_fn.empty()) {
    text += "evals:\n  val:\n    type: classification\n    data: " + eval_data +
            "\n    pp_fn: " + pp_fn + kLabels + "\n    loss_name: softmax_xent\n";
  }
  return warnings_of(text);
}

inline const std::string kDigits = "{name: digits, split: train}";

}  // namespace bv::test
