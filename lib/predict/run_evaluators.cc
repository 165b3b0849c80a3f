#include "lib/predict/run_evaluators.h"

#include <ATen/Parallel.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/ckpt/restored.h"
#include "lib/config/count.h"
#include "lib/device/compute_threads.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/model/init.h"
#include "lib/predict/predict_model.h"
#include "lib/predict/row_evaluators.h"
#include "lib/predict/trained_parts.h"
#include "lib/report/chrono.h"
#include "lib/report/live_line.h"
#include "lib/report/log.h"
#include "lib/report/log_warnings.h"
#include "lib/train/data_changes.h"
#include "lib/train/keys.h"
#include "lib/train/recipe.h"
#include "lib/train/start.h"
#include "lib/train/step/shape_check.h"
#include "lib/util/json_text.h"
#include "lib/util/pattern.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Uses as many threads as the run did, unless the config sets another number.
int compute_threads_of(const Config& config, const Restored& from) {
  const int trained = from.meta.value("compute_threads", at::get_num_threads());
  const int threads = read_count(config, "compute_threads", 1, trained);
  start_compute_threads(threads);
  return threads;
}

void refuse_synthetic(const Restored& from) {
  if (!from.meta.value("synthetic", false)) return;
  throw Error(
      Exit::usage, from.folder,
      "belongs to a run with --synthetic, but its config names real data; it cannot be evaluated");
}

// The length of the run, from which the evaluators' keys are read.
RunLength length_of(const Config& config, const nlohmann::json& meta) {
  RunLength length;
  length.batch_size = config.section("input").get<int64_t>("batch_size");
  if (meta.contains("data")) length.data_size = meta.at("data").value("examples", int64_t{0});
  length.made_up = length.data_size == 0;
  if (length.made_up) length.data_size = length.batch_size;
  length.total_steps = duration_steps(config, "total", length).value_or(1);
  length.no_training = length.total_steps == 0;
  return length;
}

// Returns the config of the checkpoint's run with the evaluators of request.config or, without one,
// of `with_evals`. If they replace the checkpoint's own, all messages name their file, even for
// keys that come from the checkpoint.
Config evaluation_config(const EvaluateRequest& request, const Restored& checkpoint,
                         const Restored& with_evals) {
  std::string keys = run_config(checkpoint);
  const bool from_file = !request.config.empty();
  const std::string name = from_file ? request.config : with_evals.folder + "/" + kManifestName;
  if (from_file || with_evals.folder != checkpoint.folder) {
    // Members are joined as text, so that keys keep their order and numbers their spelling.
    std::vector<std::string> members;
    const auto add = [&](const Config& from, bool evaluation) {
      for (const std::string& key : from.keys()) {
        if ((key == "evals" || key == "batch_size_eval" || key == "best") == evaluation)
          members.push_back(json_string(key) + ": " + from.json(key));
      }
    };
    add(parse_config_json(keys, name), false);
    add(from_file ? load_config(request.config, {})
                  : parse_config_json(run_config(with_evals), name),
        true);
    keys = "{" + join(members, ", ") + "}";
  }
  return parse_config_json(keys, name, request.overrides);
}

}  // namespace

void check_overrides(const EvaluateRequest& request) {
  const Pattern used(
      "(evals|batch_size_eval|best|compute_threads|precision|input\\.(threads|batch_size|max_"
      "pixels))"
      "(\\..*)?");
  for (const Override& each : request.overrides) {
    if (used.matches(each.key)) continue;
    throw Error(
        Exit::usage, each.origin,
        "has no effect on an evaluation; it uses evals.*, batch_size_eval, best, precision, "
        "compute_threads, input.batch_size, input.max_pixels and input.threads");
  }
}

std::string evaluators_of(const EvaluateRequest& request, const Restored& from) {
  return evaluation_config(request, from, from).section("evals").json() + "\n";
}

bool keeps_best(const EvaluateRequest& request, const Restored& from) {
  return has_best_by_eval(evaluation_config(request, from, from));
}

RunEvaluators::RunEvaluators(const EvaluateRequest& request, const Restored& from,
                             const Restored& with_evals, bool with_best)
    : config_(evaluation_config(request, from, with_evals)),
      threads_(compute_threads_of(config_, from)),
      device_(request.device),
      precision_(
          precision_as_trained(config_, from.meta.value("precision", std::string()), device_)) {
  refuse_synthetic(from);
  TrainedParts parts = make_trained_parts(config_, from);
  model_ = std::move(parts.model);
  task_ = std::move(parts.task);
  throw_problems(config_);
  init_parameters(*model_, 0, std::nullopt);
  move_to(device_, *model_);
  read_jobs(from, parts.env);
  if (with_best) best_ = read_best_by_eval(config_, jobs_);
  throw_problems(config_);
  finish_reading(config_, {"best", "early_stop"});
  log_warnings(config_);
}

std::string RunEvaluators::evals() const {
  auto all = nlohmann::ordered_json::parse(config_.section("evals").json());
  const auto arguments = nlohmann::ordered_json::parse(config_.section("task_kw").json());
  const bool other_delta = arguments.contains("delta") && arguments.at("delta") != 1;
  for (const auto& [name, content] : contents_) all[name][kContentOfData] = content;
  for (const EvalJob& job : jobs_) {
    if (!job.evaluator->follows_loss()) continue;
    auto& loss = all[job.name][kLossOfRun] = {{"loss", loss_}};
    if (other_delta && job.evaluator->output() == kLossOutput)
      loss["delta"] = arguments.at("delta");
  }
  return json_text(all) + "\n";
}

void RunEvaluators::run(const Restored& checkpoint, MetricWriter& metrics, const Workdir* folder) {
  EvalContext context;
  context.step = checkpoint.step;
  context.poll = poll_signals;
  context.report = folder != nullptr;
  if (folder != nullptr) {
    context.workdir = folder->dir();
    context.check_folder = [claimed = folder->folder()] { claimed->require_there(); };
  }
  if (context.report)
    context.details = [&](EvalDetails details) { metrics.details(std::move(details)); };
  for (EvalJob& job : jobs_) run_job(job, checkpoint, context, metrics);
}

void RunEvaluators::read_jobs(const Restored& from, const ModelEnv& env) {
  const RunLength length = length_of(config_, from.meta);
  read_max_pixels(config_.section("input"));
  EvalDefaults defaults = read_eval_defaults(config_, length.batch_size);
  EvalEnv& shared = defaults.env;
  loss_ = shared.loss;
  shared.threads = read_count(config_.section("input"), "threads", 1, at::get_num_threads());
  shared.pinned = !device_.is_cpu();
  shared.seed = static_cast<uint64_t>(config_.get<int64_t>("seed", 0));
  shared.data.source = {shared.seed, env.num_classes};
  // Set even if there are no names: then folders called 0, 1, 10 get these numbers, as in the run.
  shared.data.classes = classes_of(from);
  shared.data.labels_are_numbers = config_.is_text("task", "regress");
  defaults.predictions = task_->predictions();
  const Config evals = config_.section("evals");
  jobs_ = read_evals(evals, defaults, length);
  throw_problems(config_);
  if (jobs_.empty()) throw Error(Exit::usage, config_.place("evals"), "there are no evaluators");
  const ShapeCheck shapes(config_, config_.get<std::string>("model_name"), env, precision_, *task_);
  for (const EvalJob& job : jobs_) {
    attempt(config_, [&] {
      const Config keys = evals.section(job.name);
      const Batch batch = probe_evaluator(job, keys, 1);
      if (!batch.empty()) shapes.evaluation(job, batch, keys);
    });
  }
  throw_problems(config_);
  std::map<std::string, EvalExamples> examples;
  for (const EvalJob& job : jobs_) {
    const EvalExamples& each =
        examples[job.name] = {job.evaluator->examples(), job.evaluator->content()};
    if (each.content == 0) continue;
    contents_[job.name] =
        fmt::format("{}-{:016x}-{:016x}", each.count, job.evaluator->fingerprint(), each.content);
  }
  for (const std::string& line : other_examples(from, config_, examples)) log::warn("{}", line);
}

void RunEvaluators::run_job(EvalJob& job, const Restored& checkpoint, EvalContext context,
                            MetricWriter& metrics) {
  copy_weights(checkpoint, job.ema, *model_);
  context.predict = bind_prediction(*task_, job.pred, *model_, precision_, job.tta);
  context.left_out = [](const std::string& data, int64_t,
                        const std::vector<FailedExample>& failed) {
    for (const FailedExample& each : failed)
      log::warn("{}: {} is left out: {}", data, each.name, each.reason);
  };
  const Measure measure = [&](std::string_view name, double value) {
    metrics.measure(name, value);
  };
  const double began = monotonic_seconds();
  const Row values = run_evaluator(job, context, metric_owners_, measure);
  const double seconds = monotonic_seconds() - began;
  metrics.measure(kEvalSeconds + job.name, seconds);
  log::info("{}", evaluation_line(checkpoint.step, job.name, values, seconds, metrics.summary()));
}

}  // namespace bv
