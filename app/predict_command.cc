// bvtrain predict: runs a trained model on images (lib/predict/predict.h) and writes the results.
#include <ATen/ops/cat.h>

#include <system_error>

#include "app/commands.h"
#include "app/output_format.h"
#include "app/standard_output.h"
#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/device/devices.h"
#include "lib/predict/predict.h"
#include "lib/predict/prediction_text.h"
#include "lib/report/log.h"
#include "lib/report/log_warnings.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr int64_t kTopInFiles = 5;  // classes per image unless --top says

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw Error(Exit::usage, where, why);
}

// Returns table, jsonl, csv or npz.
std::string format_of(const Arguments& arguments) {
  if (arguments.output.empty()) {
    if (!arguments.format.empty()) {
      refuse("--format " + arguments.format,
             "needs --output FILE, or --output - for standard output");
    }
    return "table";
  }
  if (arguments.output != kStandardOutput) {
    return choose_format(arguments.output, arguments.format,
                         {{"npz", ".npz"}, {"jsonl", ".jsonl"}, {"csv", ".csv"}});
  }
  if (arguments.format == "npz") refuse("--format npz", "needs --output FILE");
  return arguments.format.empty() ? "jsonl" : arguments.format;
}

void check_flags(const Arguments& arguments, const std::string& format) {
  if (arguments.outputs != "logits" && format != "npz")
    refuse("--outputs " + arguments.outputs, "needs --output F.npz");
  if (arguments.top > 0 && format == "npz")
    refuse(fmt::format("--top {}", arguments.top),
           "does not apply to npz files, which hold the logits of all classes");
  if (!arguments.inputs.empty() && !arguments.eval.empty())
    refuse("--eval " + arguments.eval, "takes the evaluator's data; give no images with it");
  if (arguments.inputs.empty() && arguments.eval.empty())
    refuse("bvtrain predict", "give images, or --eval NAME for an evaluator's data");
  if (!arguments.eval.empty() && !arguments.weights.empty() && arguments.config.empty())
    refuse("--eval " + arguments.eval,
           "needs the evaluator's config, which a weights file does not contain; give --config or "
           "--workdir");
  if (!arguments.workdir.empty() && !arguments.weights.empty())
    refuse("bvtrain predict", "give either --workdir or --weights");
  if (arguments.workdir.empty() && arguments.weights.empty() && arguments.config.empty())
    refuse("bvtrain predict", "give --workdir D, or --weights F, or --config C");
  if (arguments.ema && arguments.workdir.empty()) refuse("--ema", "needs a --workdir");
}

using Each = std::function<void(const PredictedBatch&)>;

// Writes text batch by batch, so that memory use does not grow with the number of images.
PredictedCounts write_text(PredictionText& text, const std::string& output,
                           const std::function<PredictedCounts(const Each&)>& run) {
  PredictedCounts counts;
  if (output.empty()) {  // a table, which prints nothing before the end
    counts = run([&](const PredictedBatch& batch) { text.add(batch); });
    print(text.end());
    return counts;
  }
  if (output == kStandardOutput) {
    counts = run([&](const PredictedBatch& batch) { write_stdout(text.add(batch)); });
    write_stdout(text.end());
    return counts;
  }
  replace_file(output, [&](FileWriter& file) {
    counts = run([&](const PredictedBatch& batch) { file.write(text.add(batch)); });
    file.write(text.end());
  });
  return counts;
}

PredictedCounts write_arrays(const std::string& output,
                             const std::function<PredictedCounts(const Each&)>& run) {
  std::map<std::string, std::vector<at::Tensor>> parts;
  std::vector<std::string> names;
  const PredictedCounts counts = run([&](const PredictedBatch& batch) {
    for (const auto& [name, values] : batch.arrays) parts[name].push_back(values);
    for (const PredictedRow& row : batch.rows) {
      if (row.error.empty()) names.push_back(row.name);
    }
  });
  NamedTensors arrays;
  for (auto& [name, values] : parts) {
    arrays[name] = at::cat(values);
    values.clear();  // they may take gigabytes
  }
  write_npz(output, arrays, {{"names", names}});
  return counts;
}

std::unique_ptr<PredictionText> text_of(const std::string& format, int64_t top) {
  if (format == "table") return prediction_table(top);
  const int64_t classes = top > 0 ? top : kTopInFiles;
  return format == "csv" ? csv(classes) : json_lines(classes);
}

}  // namespace

Exit predict_command(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  check_flags(arguments, format);
  const bool arrays = format == "npz";
  check_output_file(arguments.output, "--output",
                    arrays ? StandardOutput::impossible : StandardOutput::possible);
  std::vector<std::string> read = arguments.inputs;
  read.insert(read.end(), {arguments.config, arguments.weights});
  check_output_is_no_input(arguments.output, read, "predict reads");
  const c10::Device device = use_one_device(arguments.devices, "predict");
  PredictModel model = open_predict_model({.workdir = arguments.workdir,
                                           .weights = arguments.weights,
                                           .config = arguments.config,
                                           .overrides = arguments.overrides,
                                           .eval = arguments.eval,
                                           .ema = arguments.ema});
  check_output_is_not_in(arguments.output, model.config);

  PredictRequest request;
  request.inputs = arguments.inputs;
  request.eval = arguments.eval;
  request.first = arguments.first;
  request.pp = arguments.pp;
  request.outputs = arrays ? split(arguments.outputs, ',') : std::vector<std::string>{"logits"};
  request.batch_size = arguments.batch_size;
  request.device = device;
  request.labels = !arrays;
  const auto run = [&](const Each& each) { return predict(model, request, each); };
  const PredictedCounts counts =
      arrays ? write_arrays(arguments.output, run)
             : write_text(*text_of(format, arguments.top), arguments.output, run);
  log_warnings(model.config);
  if (const int64_t unread = counts.failed - counts.not_finite; unread > 0)
    log::warn("{} of {} images could not be read", unread, counts.examples);
  if (counts.not_finite > 0) {
    log::warn("the model's output is NaN or infinite for {} of {} images", counts.not_finite,
              counts.examples);
  }
  if (!arguments.output.empty() && arguments.output != kStandardOutput) {
    log::info("Wrote {} for {} examples to {}", arrays ? arguments.outputs : "predictions",
              counts.examples - counts.failed, arguments.output);
  }
  return Exit::ok;
}

}  // namespace bv
