#include "lib/predict/prediction_text.h"

#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/util/error.h"

namespace bv {
namespace {

// Returns probabilities (n, classes).
at::Tensor probabilities_of(const Prediction& prediction) {
  const at::Tensor& logits = prediction.arrays.at("logits");
  if (logits.dim() != 2)
    throw Error(Exit::usage, "--output",
                "classes need logits (n, classes); write the outputs to an *.npz");
  return prediction.sigmoid ? at::sigmoid(logits) : at::softmax(logits, 1);
}

// Returns {"index": 9, "class": "Ankle boot"}.
nlohmann::ordered_json class_entry(const Prediction& prediction, int64_t index) {
  nlohmann::ordered_json entry = {{"index", index}};
  if (index >= 0 && index < std::ssize(prediction.class_names))
    entry["class"] = prediction.class_names[static_cast<size_t>(index)];
  return entry;
}

}  // namespace

std::string prediction_json_lines(const Prediction& prediction, int64_t top) {
  const at::Tensor probabilities = probabilities_of(prediction);
  const auto [values, classes] = at::topk(probabilities, std::min(top, probabilities.size(1)));
  std::string text;
  for (int64_t i = 0; i < probabilities.size(0); ++i) {
    nlohmann::ordered_json line = {{"file", prediction.names[static_cast<size_t>(i)]}};
    if (!prediction.labels.empty())
      line["label"] = class_entry(prediction, prediction.labels[static_cast<size_t>(i)]);
    nlohmann::ordered_json best = nlohmann::ordered_json::array();
    for (int64_t k = 0; k < values.size(1); ++k) {
      nlohmann::ordered_json entry = class_entry(prediction, classes[i][k].item<int64_t>());
      entry["probability"] = values[i][k].item<float>();
      best.push_back(entry);
    }
    line["top"] = best;
    text += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return text;
}

std::string prediction_table(const Prediction& prediction) {
  const auto name = [&](int64_t index) {
    const bool known = index >= 0 && index < std::ssize(prediction.class_names);
    return fmt::format("{}{}", index,
                       known ? " " + prediction.class_names[static_cast<size_t>(index)] : "");
  };
  const auto [values, classes] = probabilities_of(prediction).max(1);
  std::vector<std::string> labels, guesses;
  size_t file_width = 0, label_width = 0, guess_width = 0;
  int64_t right = 0;
  for (size_t i = 0; i < prediction.names.size(); ++i) {
    const auto guess = classes[static_cast<int64_t>(i)].item<int64_t>();
    labels.push_back(prediction.labels.empty() ? "" : name(prediction.labels[i]));
    guesses.push_back(name(guess));
    right += !prediction.labels.empty() && prediction.labels[i] == guess;
    file_width = std::max(file_width, prediction.names[i].size());
    label_width = std::max(label_width, labels[i].size());
    guess_width = std::max(guess_width, guesses[i].size());
  }
  std::string text;
  for (size_t i = 0; i < prediction.names.size(); ++i) {
    text += fmt::format("{:{}}   ", prediction.names[i], file_width);
    if (!prediction.labels.empty()) text += fmt::format("label {:{}}   ", labels[i], label_width);
    text += fmt::format("predicted {:{}}   {:.3f}\n", guesses[i], guess_width,
                        values[static_cast<int64_t>(i)].item<float>());
  }
  if (!prediction.labels.empty())
    text += fmt::format("{} of {} are right\n", right, prediction.labels.size());
  return text;
}

}  // namespace bv
