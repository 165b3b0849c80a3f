// bvtrain predict: runs a trained model over images and writes what was asked for.
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "lib/ckpt/npz.h"
#include "lib/predict/predict.h"
#include "lib/report/log.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// (n, classes)
at::Tensor probabilities_of(const Prediction& prediction) {
  const at::Tensor& logits = prediction.arrays.at("logits");
  if (logits.dim() != 2)
    throw Error(Exit::usage, "--output",
                "classes need logits (n, classes); write the outputs to an *.npz");
  return prediction.sigmoid ? at::sigmoid(logits) : at::softmax(logits, 1);
}

// {"index": 9, "class": "Ankle boot"}
nlohmann::ordered_json class_entry(const Prediction& prediction, int64_t index) {
  nlohmann::ordered_json entry = {{"index", index}};
  if (index >= 0 && index < std::ssize(prediction.class_names))
    entry["class"] = prediction.class_names[static_cast<size_t>(index)];
  return entry;
}

// One line an example: its file, its label where that is known, and the most probable classes.
std::string json_lines(const Prediction& prediction, int64_t top) {
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

// The most probable class of each example beside its label, in columns:
//   test row 3   label 1 Trouser   predicted 1 Trouser   0.993
std::string table(const Prediction& prediction) {
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

void check_flags(const Arguments& arguments) {
  const auto refuse = [](const std::string& where, const std::string& why) {
    throw Error(Exit::usage, where, why);
  };
  const std::string& output = arguments.output;
  if (!output.empty() && !output.ends_with(".jsonl") && !output.ends_with(".npz"))
    refuse("--output " + output, "expected *.npz or *.jsonl");
  if (arguments.outputs != "logits" && !output.ends_with(".npz"))
    refuse("--outputs " + arguments.outputs, "needs --output F.npz");
  if (arguments.top != Arguments().top && !output.ends_with(".jsonl"))
    refuse(fmt::format("--top {}", arguments.top), "needs --output F.jsonl");
  if (arguments.inputs.empty() == arguments.eval.empty())
    refuse("bvtrain predict", "give --input FILES, or --eval NAME for an evaluator's data");
  if (arguments.workdir.empty() && arguments.config.empty())
    refuse("bvtrain predict", "give --workdir, or --config, or both");
}

}  // namespace

Exit predict_command(const Arguments& arguments) {
  check_flags(arguments);
  const bool arrays = arguments.output.ends_with(".npz");
  std::optional<Restored> checkpoint;
  if (!arguments.workdir.empty()) checkpoint = Checkpointer::load(arguments.workdir);
  const Config config =
      arguments.config.empty()
          ? parse_config(checkpoint->meta.at("config").get<std::string>(),
                         checkpoint->folder + "/manifest.json", arguments.overrides)
          : load_config(arguments.config, arguments.overrides);

  PredictRequest request;
  request.inputs = arguments.inputs;
  request.eval = arguments.eval;
  request.first = arguments.first;
  request.pp = arguments.pp;
  request.outputs = arrays ? split(arguments.outputs, ',') : std::vector<std::string>{"logits"};
  std::sort(request.outputs.begin(), request.outputs.end());
  request.outputs.erase(std::unique(request.outputs.begin(), request.outputs.end()),
                        request.outputs.end());
  request.batch_size = arguments.batch_size;
  request.ema = arguments.ema;
  request.labels = !arrays;
  const Prediction prediction = predict(config, checkpoint, request);
  for (const std::string& line : warnings(config)) log::warn("{}", line);
  if (arguments.output.empty()) {
    std::fputs(table(prediction).c_str(), stdout);
    return Exit::ok;
  }
  if (arrays)
    write_npz(arguments.output, prediction.arrays);
  else
    write_file_atomically(arguments.output, json_lines(prediction, arguments.top));
  log::info("Wrote {} for {} examples to {}", arrays ? arguments.outputs : "predictions",
            prediction.names.size(), arguments.output);
  return Exit::ok;
}

}  // namespace bv
