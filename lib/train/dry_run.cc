#include "lib/train/dry_run.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <unistd.h>

#include <ATen/core/grad_mode.h>

#include "lib/train/start.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr double kQuickSeconds = 1.0;
constexpr double kMacsPerSecond = 3e10;  // a cautious guess for two cores in float32

// Returns the first n training examples as a batch.
Batch first_examples(const Recipe& recipe, int64_t n) {
  LoaderOptions options = recipe.loader;
  options.batch_size = n;
  options.rank = 0;
  options.ranks = 1;
  options.threads = 1;
  options.prefetch = 1;
  Loader loader(recipe.data, recipe.pp, options);
  Batch batch = loader.next();
  for (auto& [name, value] : batch) value = value.clone();  // to outlive the loader
  return batch;
}

double available_memory() {
  return static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Runs the model on the meta device. Throws Error(Exit::usage) if logits and labels differ in
// shape. Adds the multiply-accumulates to `macs`, which may be null.
void trace_on_meta(const Recipe& shapes, const Batch& batch, const char* labels_key, double* macs) {
  const at::NoGradGuard no_grad;
  Pass pass;
  pass.precision = shapes.precision;
  pass.macs = macs;
  const at::Tensor& image = batch.at("image");
  const at::Tensor logits =
      shapes.model->forward(at::empty(image.sizes(), image.options().device(at::kMeta)), pass);
  const auto labels = batch.find(labels_key);
  if (labels != batch.end() && labels->second.dim() == 2 &&
      labels->second.sizes() != logits.sizes()) {
    throw Error(Exit::usage, shapes.config.place("model_name"),
                fmt::format("the model gives {} but '{}' is {}", shape_text(logits.sizes()),
                            labels_key, shape_text(labels->second.sizes())));
  }
}

void evaluate_once(const Recipe& recipe, int64_t n, bool meta) {
  const at::NoGradGuard no_grad;
  for (const EvalJob& job : recipe.evals) {
    const Batch batch = job.evaluator->probe(n);
    if (batch.empty()) continue;  // this evaluator needs no predictions
    Pass pass;
    pass.precision = recipe.precision;
    if (meta) {
      trace_on_meta(recipe, batch, "labels", nullptr);
    } else {
      recipe.task->predict(job.pred, *recipe.model, batch, pass);
    }
  }
}

}  // namespace

std::string dry_run(const Config& config, bool synthetic, bool full, const Workdir* workdir,
                    int ranks) {
  const auto group = Group::planned(ranks);
  const Recipe shapes(config, synthetic, /*meta=*/true, *group);
  const std::string start = check_start(shapes, workdir);
  const int64_t few = std::max<int64_t>(shapes.grad_accum_steps, 2);
  const int64_t n = full ? shapes.length.batch_size : std::min(shapes.length.batch_size, few);
  const Batch batch = first_examples(shapes, n);
  double macs = 0;
  trace_on_meta(shapes, batch, "labels", &macs);
  const double state = shapes.state_bytes;
  // Forward and backward cost as much as three forward passes, an evaluator as much as one.
  const auto passes = static_cast<double>(3 + shapes.evals.size());
  const bool quick =
      full || (passes * macs / kMacsPerSecond < kQuickSeconds && state < available_memory() / 2);
  if (quick) {
    Recipe real(config, synthetic);
    real.step->run(1, batch, /*measure=*/true);
    real.step->measurements(1);
    evaluate_once(real, n, /*meta=*/false);
  } else {
    evaluate_once(shapes, n, /*meta=*/true);
  }

  int64_t params = 0;
  for (const auto& [name, value] : named_parameters(*shapes.model)) params += value.numel();
  const RunLength& length = shapes.length;
  std::string text;
  text += fmt::format("model       {}: {} parameters, {:.3g} GMACs per example\n",
                      shapes.model_name, human_count(params), macs / static_cast<double>(n) / 1e9);
  text += fmt::format("start       {}\n", start);
  text += fmt::format(
      "training    {} steps of {} = {:.2f} epochs of {} examples, {:.1f} steps per epoch\n",
      human_count(length.total_steps), length.batch_size,
      static_cast<double>(length.total_steps) / shapes.steps_per_epoch(),
      human_count(length.data_size), shapes.steps_per_epoch());
  const int64_t micro_batches = shapes.grad_accum_steps, own = length.batch_size / ranks;
  const std::string in_micro_batches =
      micro_batches > 1
          ? fmt::format(" in {} micro-batches of {}", micro_batches, own / micro_batches)
          : "";
  if (ranks > 1) {
    text += fmt::format("processes   {}: each computes {} examples{} and sends {} per step\n",
                        ranks, own, in_micro_batches, human_bytes(shapes.sent_bytes));
  } else if (micro_batches > 1) {
    text += fmt::format("step        {} examples{}\n", own, in_micro_batches);
  }
  for (const EvalJob& job : shapes.evals) {
    text += fmt::format("evaluator   {}: {} examples\n", job.name,
                        human_count(job.evaluator->examples()));
  }
  text += fmt::format("memory      {} for parameters, gradients, optimizer state and averages{}\n",
                      human_bytes(state), ranks > 1 ? ", each process" : "");
  text += fmt::format(
      "checked     one training step and one step of each evaluator on {} real example{}{}\n", n,
      n == 1 ? "" : "s",
      quick ? "" : ", shapes only (meta device: too large to run within a second)");
  return text;
}

}  // namespace bv
