// bvtrain predict: runs a trained model on images (lib/predict/predict.h) and writes the results.
#include <cstdio>

#include "app/commands.h"
#include "lib/ckpt/npz.h"
#include "lib/config/load_config.h"
#include "lib/predict/predict.h"
#include "lib/predict/prediction_text.h"
#include "lib/report/log.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

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
                         checkpoint->folder + "/" + kManifestName, arguments.overrides)
          : load_config(arguments.config, arguments.overrides);

  PredictRequest request;
  request.inputs = arguments.inputs;
  request.eval = arguments.eval;
  request.first = arguments.first;
  request.pp = arguments.pp;
  request.outputs = arrays ? split(arguments.outputs, ',') : std::vector<std::string>{"logits"};
  request.batch_size = arguments.batch_size;
  request.ema = arguments.ema;
  request.labels = !arrays;
  const Prediction prediction = predict(config, checkpoint, request);
  for (const std::string& line : warnings(config)) log::warn("{}", line);
  if (arguments.output.empty()) {
    std::fputs(prediction_table(prediction).c_str(), stdout);
    return Exit::ok;
  }
  if (arrays)
    write_npz(arguments.output, prediction.arrays);
  else
    write_file_atomically(arguments.output, prediction_json_lines(prediction, arguments.top));
  log::info("Wrote {} for {} examples to {}", arrays ? arguments.outputs : "predictions",
            prediction.names.size(), arguments.output);
  return Exit::ok;
}

}  // namespace bv
