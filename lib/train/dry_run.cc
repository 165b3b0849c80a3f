#include "lib/train/dry_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "lib/input/cache/cache_memory.h"
#include "lib/report/log.h"
#include "lib/train/start.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr double kQuickSeconds = 1.0;
constexpr double kMacsPerSecond = 3e10;  // a conservative guess for two cores in float32

// Returns the first n training examples as a batch.
Batch first_examples(const Recipe& recipe, int64_t n) {
  LoaderOptions options = in_one_process(recipe.loader);
  options.batch_size = n;
  options.threads = 1;
  return copy_of(Loader(recipe.data, options).next());
}

// Runs the model on the meta device, for images of this shape. Returns its multiply-accumulates.
double count_macs(const Recipe& shapes, const at::Tensor& image) {
  const at::NoGradGuard no_grad;
  double macs = 0;
  Pass pass;
  pass.precision = shapes.precision;
  pass.macs = &macs;
  shapes.model->forward(at::empty(image.sizes(), image.options().device(at::kMeta)), pass);
  return macs;
}

void evaluate_once(const Recipe& recipe, int64_t n) {
  const at::NoGradGuard no_grad;
  for (const EvalJob& job : recipe.evals) {
    const Batch batch = job.evaluator->probe(n);
    if (batch.empty()) continue;  // this evaluator needs no predictions
    Pass pass;
    pass.precision = recipe.precision;
    recipe.task->predict(job.pred, *recipe.model, batch, pass);
  }
}

// Summarizes the run from the recipe, which is built for all ranks on the meta device.
DryRunSummary summary_of(const Recipe& shapes) {
  DryRunSummary summary;
  summary.model = shapes.model_name;
  for (const auto& [name, value] : named_parameters(*shapes.model))
    summary.parameters += value.numel();
  summary.precision = shapes.precision_choice;
  summary.length = shapes.length;
  summary.epochs = static_cast<double>(shapes.length.total_steps) / shapes.steps_per_epoch();
  summary.steps_per_epoch = shapes.steps_per_epoch();
  summary.processes = shapes.ranks.count;
  summary.own_examples = shapes.length.batch_size / shapes.ranks.count;
  summary.micro_batches = shapes.grad_accum_steps;
  summary.sent_bytes = shapes.cost.sent_bytes;
  summary.state_bytes = shapes.cost.state_bytes;
  for (const EvalJob& job : shapes.evals)
    summary.evaluators.emplace_back(job.name, job.evaluator->examples());
  return summary;
}

}  // namespace

void warn_of_host(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    log::warn("{}; a run on this host would end with code {}", error.what(),
              static_cast<int>(error.code()));
  }
}

DryRunSummary dry_run(const Config& config, const Workdir* workdir, const DryRunOptions& options) {
  const bool full = options.full;
  const auto group = Group::planned(options.ranks);
  const ClassNames classes = classes_of(peek_checkpoint(config, workdir));
  const Recipe shapes(config, options.synthetic, /*meta=*/true, *group, options.device, 0, classes);
  DryRunSummary summary = summary_of(shapes);
  summary.start = check_start(shapes, workdir, options.accept_changes);
  warn_of_host([&] { shapes.data->check_cache(); });
  const int64_t few = std::max<int64_t>(shapes.grad_accum_steps, 2);
  const int64_t n = full ? shapes.length.batch_size : std::min(shapes.length.batch_size, few);
  const Batch batch = first_examples(shapes, n);
  const double macs = count_macs(shapes, batch.at("image"));
  // Forward and backward cost as much as three forward passes, an evaluator as much as one.
  const auto passes = static_cast<double>(3 + shapes.evals.size());
  const auto memory = available_memory();
  const bool fits = !memory || shapes.cost.state_bytes < *memory / 2;
  const bool quick = full || (fits && passes * macs / kMacsPerSecond < kQuickSeconds);
  if (quick) {  // otherwise `shapes` has checked the evaluators, too
    Recipe real(config, options.synthetic, false, Group::single(), c10::kCPU, 0, classes);
    real.step->run(1, batch, /*measure=*/true);
    real.step->measurements(1);
    evaluate_once(real, n);
  }
  summary.macs = macs / static_cast<double>(n);
  summary.checked_examples = n;
  summary.shapes_only = !quick;
  summary.synthetic = options.synthetic;
  return summary;
}

std::string DryRunSummary::text() const {
  std::string text;
  text += fmt::format("model       {}: {} parameters, {:.3g} GMACs per example\n", model,
                      human_count(parameters), macs / 1e9);
  text += fmt::format("precision   {}\n", precision.text());
  text += fmt::format("start       {}\n", printable(start, std::string::npos));
  text += fmt::format(
      "training    {} steps of {} = {:.2f} epochs of {} examples, {:.1f} steps per epoch\n",
      human_count(length.total_steps), length.batch_size, epochs, human_count(length.data_size),
      steps_per_epoch);
  const std::string in_micro_batches =
      micro_batches > 1
          ? fmt::format(" in {} micro-batches of {}", micro_batches, own_examples / micro_batches)
          : "";
  if (processes > 1) {
    text += fmt::format("processes   {}: each computes {} examples{} and sends {} per step\n",
                        processes, own_examples, in_micro_batches, human_bytes(sent_bytes));
  } else if (micro_batches > 1) {
    text += fmt::format("step        {} examples{}\n", own_examples, in_micro_batches);
  }
  for (const auto& [name, examples] : evaluators)
    text += fmt::format("evaluator   {}: {} examples\n", printable(name), human_count(examples));
  text += fmt::format("memory      {} for parameters, gradients, optimizer state and averages{}\n",
                      human_bytes(state_bytes), processes > 1 ? ", each process" : "");
  text += fmt::format(
      "checked     one training step and one step of each evaluator on {} {} example{}{}\n",
      checked_examples, synthetic ? "generated" : "real", checked_examples == 1 ? "" : "s",
      shapes_only ? ", shapes only (meta device: too large to run within a second)" : "");
  return text;
}

nlohmann::ordered_json DryRunSummary::json() const {
  nlohmann::ordered_json evals = nlohmann::ordered_json::object();
  for (const auto& [name, examples] : evaluators) evals[name] = {{"examples", examples}};
  return {{"model", model},
          {"parameters", parameters},
          {"macs_per_example", macs},
          {"precision", precision.name()},
          {"precision_config", precision.word},
          {"precision_reason", precision.reason},
          {"start", start},
          {"total_steps", length.total_steps},
          {"batch_size", length.batch_size},
          {"epochs", epochs},
          {"training_examples", length.data_size},
          {"steps_per_epoch", steps_per_epoch},
          {"processes", processes},
          {"examples_per_process", own_examples},
          {"micro_batches", micro_batches},
          {"sent_bytes_per_step", sent_bytes},
          {"evaluators", evals},
          {"memory_bytes_per_process", state_bytes},
          {"checked_examples", checked_examples},
          {"checked_shapes_only", shapes_only}};
}

}  // namespace bv
