// bvtrain predict: runs a trained model over images and writes what was asked for.
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "lib/ckpt/npz.h"
#include "lib/report/log.h"
#include "lib/train/predict.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// One line an example: its file, and the most probable classes.
std::string json_lines(const Prediction& prediction, int64_t top) {
  const at::Tensor& logits = prediction.arrays.at("logits");
  if (logits.dim() != 2)
    throw Error(Exit::usage, "--output", "*.jsonl needs logits (n, classes); write an *.npz");
  const at::Tensor probabilities =
      prediction.sigmoid ? at::sigmoid(logits) : at::softmax(logits, 1);
  const auto [values, classes] = at::topk(probabilities, std::min(top, logits.size(1)));
  std::string text;
  for (int64_t i = 0; i < logits.size(0); ++i) {
    nlohmann::ordered_json best = nlohmann::ordered_json::array();
    for (int64_t k = 0; k < values.size(1); ++k) {
      const auto index = classes[i][k].item<int64_t>();
      nlohmann::ordered_json entry;
      entry["index"] = index;
      if (index < std::ssize(prediction.class_names))
        entry["class"] = prediction.class_names[static_cast<size_t>(index)];
      entry["probability"] = values[i][k].item<float>();
      best.push_back(entry);
    }
    const nlohmann::ordered_json line = {{"file", prediction.names[static_cast<size_t>(i)]},
                                         {"top", best}};
    text += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return text;
}

}  // namespace

Exit predict_command(const Arguments& arguments) {
  const bool lines = arguments.output.ends_with(".jsonl");
  if (!lines && !arguments.output.ends_with(".npz"))
    throw Error(Exit::usage, "--output " + arguments.output, "expected *.npz or *.jsonl");
  std::optional<Restored> checkpoint;
  if (!arguments.workdir.empty()) checkpoint = Checkpointer::load(arguments.workdir);
  if (!checkpoint && arguments.config.empty())
    throw Error(Exit::usage, "bvtrain predict", "give --workdir, or --config, or both");
  const Config config =
      arguments.config.empty()
          ? parse_config(checkpoint->meta.at("config").get<std::string>(),
                         checkpoint->folder + "/manifest.json", arguments.overrides)
          : load_config(arguments.config, arguments.overrides);

  PredictRequest request;
  request.inputs = arguments.inputs;
  request.pp = arguments.pp;
  request.outputs = lines ? std::vector<std::string>{"logits"} : split(arguments.outputs, ',');
  std::sort(request.outputs.begin(), request.outputs.end());
  request.outputs.erase(std::unique(request.outputs.begin(), request.outputs.end()),
                        request.outputs.end());
  request.batch_size = arguments.batch_size;
  request.ema = arguments.ema;
  const Prediction prediction = predict(config, checkpoint, request);
  for (const std::string& line : warnings(config)) log::warn("{}", line);
  if (lines)
    write_file_atomically(arguments.output, json_lines(prediction, arguments.top));
  else
    write_npz(arguments.output, prediction.arrays);
  log::info("Wrote {} for {} examples to {}", lines ? "predictions" : arguments.outputs,
            prediction.names.size(), arguments.output);
  return Exit::ok;
}

}  // namespace bv
