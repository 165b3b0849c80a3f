// bvtrain eval: evaluates the checkpoints of a run in a separate process.
#include <algorithm>
#include <set>

#include "app/commands.h"
#include "app/json_output.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/device/devices.h"
#include "lib/predict/evaluate_run.h"
#include "lib/predict/evaluation_folders.h"
#include "lib/report/log.h"
#include "lib/report/metric_file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Evaluates the checkpoint that --ckpt or --best names, and writes no row.
Exit evaluate_one(const Arguments& arguments, const EvaluateRequest& request) {
  const std::string checkpoint =
      arguments.best ? arguments.workdir
                     : Workdir(arguments.workdir).ckpt().step(arguments.evaluate.step);
  const Evaluation evaluation = evaluate_checkpoint(request, checkpoint);
  if (!arguments.json) return Exit::ok;  // the log has shown the metrics
  nlohmann::ordered_json metrics = nlohmann::ordered_json::object();
  for (const auto& [name, value] : evaluation.metrics)
    metrics[name] = nlohmann::ordered_json::parse(json_number(value));
  print_json({{"step", evaluation.step}, {"metrics", metrics}});
  return Exit::ok;
}

// Says how many checkpoints were evaluated. `rows`: the metrics.jsonl with their rows.
std::string evaluated_text(int64_t count, const CkptFolder& ckpt, const std::string& rows) {
  const std::vector<int64_t> steps = ckpt.steps();
  std::set<int64_t> done;
  if (count == 0) for_each_row(rows, [&](int64_t step, const Row&) { done.insert(step); });
  if (!steps.empty() &&
      std::all_of(steps.begin(), steps.end(), [&](int64_t step) { return done.contains(step); })) {
    return steps.size() == 1 ? "The only checkpoint has a row already"
                             : fmt::format("All {} checkpoints have a row already", steps.size());
  }
  return fmt::format("Evaluated {} {}", count, count == 1 ? "checkpoint" : "checkpoints");
}

}  // namespace

Exit eval_command(const Arguments& arguments) {
  const Arguments::Evaluate& given = arguments.evaluate;
  const bool one = arguments.best || given.step >= 0;
  if (arguments.workdir.empty()) throw Error(Exit::usage, "bvtrain eval", "give --workdir");
  if (arguments.best && given.step >= 0)
    throw Error(Exit::usage, "bvtrain eval", "give either --ckpt or --best");
  if (given.once && (given.follow || one))
    throw Error(Exit::usage, "--once",
                "evaluates all new checkpoints; leave out --follow, --ckpt and --best");
  if (one && (given.follow || !arguments.output.empty()))
    throw Error(Exit::usage, "bvtrain eval",
                "--ckpt and --best write no rows; leave out --follow and --output");
  if (arguments.json && !one)
    throw Error(Exit::usage, "--json",
                "works with --ckpt and --best; the rows are in metrics.jsonl");
  EvaluateRequest request = {arguments.workdir, arguments.config, arguments.overrides,
                             given.follow};
  if (!one) check_is_run(arguments.workdir, given.follow);
  if (!arguments.output.empty()) check_rows_folder(arguments.output, arguments.workdir);
  request.device = use_one_device(arguments.devices, "eval");
  if (one) return evaluate_one(arguments, request);
  const std::string output =
      arguments.output.empty() ? Workdir(arguments.workdir).evaluation() : arguments.output;
  const int64_t count = evaluate_new_checkpoints(request, output);
  const std::string rows = Workdir(output).metrics();
  log::info("{}; the rows are in {}",
            evaluated_text(count, Workdir(arguments.workdir).ckpt(), rows), rows);
  return Exit::ok;
}

}  // namespace bv
