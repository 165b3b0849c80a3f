#include "lib/predict/evaluate_run.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>
#include <thread>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/crash_point.h"
#include "lib/ckpt/workdir.h"
#include "lib/device/compute_threads.h"
#include "lib/device/spin_throttle.h"
#include "lib/model/init.h"
#include "lib/predict/predict_model.h"
#include "lib/report/chrono.h"
#include "lib/report/live_line.h"
#include "lib/report/log.h"
#include "lib/report/metric_file.h"
#include "lib/report/metric_writer.h"
#include "lib/tasks/task.h"
#include "lib/train/eval_job.h"
#include "lib/train/keys.h"
#include "lib/train/recipe.h"
#include "lib/util/file.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::chrono::seconds kWait{1};  // between two looks for new checkpoints

// Evaluation does not need most keys of training. Any other key that nobody has read is misspelt.
void finish_config(const Config& config) {
  for (const auto& keys : {kRunKeys, kInputKeys, kInitKeys, kTaskKeys, kStepKeys}) {
    for (const std::string_view key : keys) config.mark_read(key);
  }
  for (const char* key : {"best", "early_stop"}) config.mark_read(key);
  for (const auto& [key, instead] : kSupersededKeys) config.mark_read(key);
  for (const std::string_view duration : kLengthKeys) {
    for (const std::string_view unit : kLengthUnits)
      config.mark_read(fmt::format("{}{}", duration, unit));
  }
  config.done();
  throw_problems(config);
}

// Returns the text of a config in which no text reads the environment.
std::string with_dollars(std::string text) {
  for (size_t at = 0; (at = text.find("${", at)) != std::string::npos; at += 3)
    text.insert(at, "$");
  return text;
}

// Computes with as many threads as the run did, unless the config says otherwise.
int compute_threads_of(const Config& config, const Restored& from) {
  const int threads = from.meta.value("compute_threads", at::get_num_threads());
  const auto given = config.get<int64_t>("compute_threads", int64_t{threads});
  start_compute_threads(static_cast<int>(given));
  return static_cast<int>(given);
}

// `auto` means what it meant for the run.
Precision precision_of(const Config& config, const Restored& from) {
  const Precision here = read_precision(config);
  const auto trained = from.meta.value("precision", std::string());
  if (trained.empty() || config.get("precision", "auto") != "auto") return here;
  return trained == "bf16" ? Precision::bf16 : Precision::float32;
}

// The length of the run, from which the evaluators' keys are read.
RunLength length_of(const Config& config, const nlohmann::json& meta) {
  RunLength length;
  length.batch_size = config.section("input").get<int64_t>("batch_size");
  if (meta.contains("data")) length.data_size = meta.at("data").value("examples", int64_t{0});
  length.made_up = length.data_size == 0;
  if (length.made_up) length.data_size = length.batch_size;
  length.total_steps = duration_steps(config, "total", length).value_or(1);
  return length;
}

// Returns the config of the checkpoint's run, with the evaluators of request.config in place of its
// own if there is one.
Config config_of(const EvaluateRequest& request, const Restored& checkpoint) {
  const std::string name = checkpoint.folder + "/" + kManifestName;
  if (!checkpoint.meta.contains("config")) throw Error(Exit::usage, name, "has no config of a run");
  auto keys = nlohmann::json::parse(checkpoint.meta.at("config").get<std::string>());
  if (!request.config.empty()) {
    const auto other = nlohmann::json::parse(load_config(request.config, {}).json());
    for (const char* key : {"evals", "batch_size_eval"}) {
      keys.erase(key);
      if (other.contains(key)) keys[key] = other.at(key);
    }
  }
  return parse_config(with_dollars(keys.dump()), name, request.overrides);
}

// The model and the evaluators of a run.
class RunEvaluators {
 public:
  RunEvaluators(const EvaluateRequest& request, const Restored& from)
      : config_(config_of(request, from)),
        threads_(compute_threads_of(config_, from)),
        precision_(precision_of(config_, from)) {
    const nlohmann::json& meta = from.meta;
    if (!meta.contains("image"))
      throw Error(Exit::usage, from.folder, "does not tell the size of the model's images");
    const auto image = meta.at("image").get<std::vector<int64_t>>();
    const auto num_classes = config_.get<int64_t>("num_classes");
    const auto name = config_.get<std::string>("model_name");
    model_ = Model::Registry::make(name, config_.section("model"), config_.place("model_name"),
                                   {num_classes, image[0], image[1], image[2]});
    TaskEnv task;
    task.loss_name = config_.get("loss", "sigmoid_xent");
    task.loss_place = config_.place("loss");
    task_ = Task::Registry::make(config_.get("task", "classify"), Config(), config_.place("task"),
                                 task);
    throw_problems(config_);
    init_parameters(*model_, 0, std::nullopt);
    read_jobs(
        meta,
        {meta.value("class_names", std::vector<std::string>()), "the checkpoint " + from.folder},
        num_classes);
    finish_config(config_);
  }

  // Returns the evaluators as text, which tells whether others wrote the rows of a folder.
  std::string evals() const { return config_.section("evals").json() + "\n"; }

  // Calls `emit` with each metric of the checkpoint.
  void run(const Restored& checkpoint, MetricWriter& metrics, const std::string& folder) {
    EvalContext context;
    context.step = checkpoint.step;
    context.workdir = folder;
    context.poll = poll_signals;
    context.report = !folder.empty();
    if (context.report)
      context.details = [&](EvalDetails details) { metrics.details(std::move(details)); };
    for (EvalJob& job : jobs_) run_job(job, checkpoint, context, metrics);
  }

 private:
  void read_jobs(const nlohmann::json& meta, ClassNames classes, int64_t num_classes) {
    const RunLength length = length_of(config_, meta);
    EvalDefaults defaults;
    defaults.batch_size = config_.get<int64_t>("batch_size_eval", length.batch_size);
    defaults.threads = static_cast<int>(
        config_.section("input").get<int64_t>("threads", int64_t{at::get_num_threads()}));
    defaults.seed = static_cast<uint64_t>(config_.get<int64_t>("seed", 0));
    defaults.data.source = {defaults.seed, num_classes};
    if (!classes.names.empty()) defaults.data.classes = std::move(classes);
    defaults.has_ema = config_.has("ema");
    defaults.predictions = task_->predictions();
    const Config evals = config_.section("evals");
    jobs_ = read_evals(evals, defaults, length);
    throw_problems(config_);
    if (jobs_.empty()) throw Error(Exit::usage, config_.place("evals"), "there are no evaluators");
    for (EvalJob& job : jobs_) job.evaluator->probe(1);
  }

  void run_job(EvalJob& job, const Restored& checkpoint, EvalContext context,
               MetricWriter& metrics) {
    copy_weights(checkpoint, job.ema, *model_);
    context.predict = bind_prediction(*task_, job.pred, *model_, precision_);
    std::optional<int64_t> left_out;
    context.left_out = [&](const std::string& data, int64_t count,
                           const std::vector<FailedExample>& failed) {
      left_out = left_out.value_or(0) + count;
      for (const auto& [index, name, reason] : failed)
        log::warn("{}: {} is left out: {}", data, name, reason);
    };
    Row values;
    const Measure emit = [&](std::string_view name, double value) {
      values.emplace_back(job.prefix + std::string(name), value);
      metrics.measure(values.back().first, value);
    };
    const double began = monotonic_seconds();
    job.evaluator->run(context, emit);
    if (left_out) emit("errors", static_cast<double>(*left_out));
    const double seconds = monotonic_seconds() - began;
    metrics.measure("z/secs/eval/" + job.name, seconds);
    log::info("{}", evaluation_line(checkpoint.step, job.name, values, seconds, metrics.summary()));
  }

  const Config config_;
  const int threads_;
  const Precision precision_;
  const SpinThrottle throttle_{threads_};
  std::shared_ptr<Model> model_;
  std::unique_ptr<Task> task_;
  std::vector<EvalJob> jobs_;
};

MetricWriter open_rows(const Workdir& output, const std::string& run) {
  MetricWriter::Options options;
  options.metrics_file = output.metrics();
  options.tensorboard_dir = output.tensorboard();
  options.report_file = output.report();
  options.curve_file = output.learning_curve();
  options.title = run + ", evaluated by bvtrain eval";
  options.first_step = std::numeric_limits<int64_t>::max();  // all rows stay
  return MetricWriter(std::move(options));
}

// Whether the run has ended with an error after which nobody continues it by itself.
bool has_failed(const Workdir& workdir) {
  const auto text = read_file_if_any(workdir.result(), 1 << 20);
  const auto result = nlohmann::json::parse(text.value_or(""), nullptr, false);
  const std::string status = result.is_object() ? result.value("status", "") : "";
  return status == "diverged" || status == "failed";
}

// Waits until the workdir has checkpoints that are not in `seen`, and returns them. Returns none if
// the run has ended, or at once unless `follow`.
std::vector<int64_t> new_steps(const Workdir& workdir, const std::set<int64_t>& seen, bool follow) {
  while (true) {
    // Before the steps are listed: none comes later.
    const bool finished = workdir.finished().has_value(), failed = has_failed(workdir);
    std::vector<int64_t> steps = workdir.ckpt().steps();
    const bool gone = steps.empty() && !seen.empty();
    std::erase_if(steps, [&](int64_t each) { return !seen.empty() && each <= *seen.rbegin(); });
    if (!steps.empty() || finished || !follow) return steps;
    if (failed || gone) {
      log::warn("{}: {}, so no checkpoint is waited for", workdir.dir(),
                failed ? "the run has failed" : "its checkpoints are gone");
      return {};
    }
    poll_signals();
    std::this_thread::sleep_for(kWait);
  }
}

// Reads the weights of a checkpoint. nullopt, with a warning, if it cannot be used.
std::optional<Restored> read_weights_of(const std::string& folder) {
  try {
    return Checkpointer::load(folder, {.wanted = weights_only});
  } catch (const Error& error) {
    if (file_exists(folder))
      log::warn("passed over: {}", error.what());
    else
      log::warn("passed over: the run has deleted {}", folder);
    return std::nullopt;
  }
}

// Throws if the folder has rows of other evaluators.
void check_evaluators(const Workdir& rows, const std::string& evals) {
  const auto before = read_file_if_any(rows.config());
  if (before && *before != evals) {
    throw Error(Exit::usage, rows.dir(),
                "has rows of other evaluators; choose another folder with --output, or move this "
                "one away");
  }
  if (!before) write_file_atomically(rows.config(), evals);
}

void check_folders(const EvaluateRequest& request, const std::string& output, bool follow) {
  refuse_remote_path(request.workdir);
  if (!follow && !file_exists(request.workdir))
    throw Error(Exit::usage, request.workdir, "no such folder");
  std::error_code none;
  if (std::filesystem::equivalent(output, request.workdir, none))
    throw Error(Exit::usage, "--output " + output, "is the folder of the run itself");
  if (!request.config.empty()) load_config(request.config, {});  // before anything is waited for
}

}  // namespace

Evaluation evaluate_checkpoint(const EvaluateRequest& request, const std::string& checkpoint) {
  const Restored restored = Checkpointer::load(checkpoint, {.wanted = weights_only});
  MetricWriter metrics({});
  metrics.begin_row(restored.step);
  RunEvaluators(request, restored).run(restored, metrics, "");
  return {restored.step, metrics.row()};
}

int64_t evaluate_new_checkpoints(const EvaluateRequest& request, const std::string& output,
                                 bool follow) {
  check_folders(request, output, follow);
  const Workdir run(request.workdir);
  if (follow && run.ckpt().steps().empty())
    log::info("Waiting for the first checkpoint in {}", run.ckpt().path());
  Workdir rows(output);
  rows.claim();
  std::set<int64_t> seen;
  for_each_row(rows.metrics(), [&](int64_t step, const Row&) { seen.insert(step); });
  MetricWriter metrics = open_rows(rows, request.workdir);
  int64_t evaluated = 0, passed = 0;
  std::string built_from;
  std::unique_ptr<RunEvaluators> evaluators;
  while (true) {
    const std::vector<int64_t> steps = new_steps(run, seen, follow);
    if (steps.empty()) break;
    for (const int64_t step : steps) {
      seen.insert(step);
      const std::optional<Restored> checkpoint = read_weights_of(run.ckpt().step(step));
      if (!checkpoint) {
        ++passed;
        continue;
      }
      // A restart may have changed the config, or moved to another machine.
      const std::string text = checkpoint->meta.value("config", std::string()) +
                               checkpoint->meta.value("precision", std::string());
      if (!evaluators || text != built_from)
        evaluators = std::make_unique<RunEvaluators>(request, *checkpoint);
      built_from = text;
      check_evaluators(rows, evaluators->evals());
      metrics.begin_row(step);
      evaluators->run(*checkpoint, metrics, rows.dir());
      crash_point("evaluate.row");
      metrics.write_report();
      metrics.end_row();
      metrics.flush();
      ++evaluated;
    }
  }
  metrics.close();
  if (passed > 0 && evaluated == 0)
    throw Error(Exit::usage, run.ckpt().path(), "no checkpoint here could be evaluated");
  return evaluated;
}

}  // namespace bv
