// bvtrain eval: evaluates the checkpoints of a run in a separate process.
#include "app/commands.h"
#include "app/json_output.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/device/devices.h"
#include "lib/predict/evaluate_run.h"
#include "lib/predict/evaluation_folders.h"
#include "lib/report/log.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Evaluates the checkpoint that --ckpt, --best or --workdir names, and writes no row.
Exit evaluate_one(const Arguments& arguments, const EvaluateRequest& request) {
  const std::string checkpoint =
      arguments.evaluate.step < 0 ? arguments.workdir
                                  : Workdir(arguments.workdir).ckpt().step(arguments.evaluate.step);
  const Evaluation evaluation = evaluate_checkpoint(request, checkpoint);
  if (!arguments.json) return Exit::ok;  // the log has shown the metrics
  nlohmann::ordered_json metrics = nlohmann::ordered_json::object();
  for (const auto& [name, value] : evaluation.metrics)
    metrics[name] = nlohmann::ordered_json::parse(json_number(value));
  print_json({{"step", evaluation.step}, {"metrics", metrics}});
  return Exit::ok;
}

}  // namespace

Exit eval_command(const Arguments& arguments) {
  const Arguments::Evaluate& given = arguments.evaluate;
  const bool best = !arguments.best && names_best(arguments.workdir);  // by its name
  const bool one = arguments.best || best || given.step >= 0;
  if (arguments.workdir.empty()) throw Error(Exit::usage, "bvtrain eval", "give --workdir");
  if (best && (given.step >= 0 || given.once || given.follow || !arguments.output.empty())) {
    throw Error(Exit::usage, "--workdir " + arguments.workdir,
                "names one checkpoint, which gets no row; leave out --follow, --once, --output and "
                "--ckpt, or give the folder of the run");
  }
  if (arguments.best && given.step >= 0)
    throw Error(Exit::usage, "bvtrain eval", "give either --ckpt or --best");
  if (given.once && (given.follow || one))
    throw Error(Exit::usage, "--once",
                "evaluates all new checkpoints; leave out --follow, --ckpt and --best");
  if (one && (given.follow || !arguments.output.empty()))
    throw Error(Exit::usage, "bvtrain eval",
                "--ckpt and --best write no rows; leave out --follow and --output");
  if (arguments.json && !one)
    throw Error(
        Exit::usage, "--json",
        "works only with --ckpt or --best; otherwise the results are rows in metrics.jsonl");
  EvaluateRequest request = {arguments.workdir, arguments.config, arguments.overrides,
                             given.follow};
  if (!one) check_is_run(arguments.workdir, given.follow);
  if (!arguments.output.empty()) check_rows_folder(arguments.output, arguments.workdir);
  request.device = use_one_device(arguments.devices, "eval");
  if (one) return evaluate_one(arguments, request);
  const std::string output =
      arguments.output.empty() ? Workdir(arguments.workdir).evaluation() : arguments.output;
  const NewRows added = evaluate_new_checkpoints(request, output);
  if (!added.any) {
    log::info("Evaluated nothing: {} has no checkpoint yet", arguments.workdir);
    return Exit::ok;
  }
  const size_t all = Workdir(arguments.workdir).ckpt().steps().size();
  std::string text = "Evaluated " + counted(added.evaluated, "checkpoint");
  if (added.evaluated == 0 && added.complete && all > 0) {
    text = all == 1 ? "The only checkpoint has a row already"
                    : fmt::format("All {} checkpoints have a row already", all);
  }
  log::info("{}; the rows are in {}", text, Workdir(output).metrics());
  return Exit::ok;
}

}  // namespace bv
