#include "lib/predict/evaluate_run.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <limits>
#include <thread>

#include "lib/ckpt/crash_point.h"
#include "lib/ckpt/workdir.h"
#include "lib/device/compute_threads.h"
#include "lib/device/spin_throttle.h"
#include "lib/input/loader/check_examples.h"
#include "lib/model/init.h"
#include "lib/params/state_part.h"
#include "lib/predict/predict_model.h"
#include "lib/report/chrono.h"
#include "lib/report/live_line.h"
#include "lib/report/log.h"
#include "lib/report/metric_file.h"
#include "lib/report/metric_writer.h"
#include "lib/tasks/task.h"
#include "lib/train/eval_job.h"
#include "lib/train/keys.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
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

// The model and the evaluators of a run.
class RunEvaluators {
 public:
  explicit RunEvaluators(const PredictModel& from)
      : precision_(from.compute_precision()), config_(from.config) {
    const nlohmann::json& meta = from.checkpoint->meta;
    if (from.image.size() != 3)
      throw Error(Exit::usage, from.origin, "does not tell the size of the model's images");
    const auto num_classes = config_.get<int64_t>("num_classes");
    const auto name = config_.get<std::string>("model_name");
    model_ = Model::Registry::make(name, config_.section("model"), config_.place("model_name"),
                                   {num_classes, from.image[0], from.image[1], from.image[2]});
    TaskEnv task;
    task.loss_name = config_.get("loss", "sigmoid_xent");
    task.loss_place = config_.place("loss");
    task_ = Task::Registry::make(config_.get("task", "classify"), Config(), config_.place("task"),
                                 task);
    throw_problems(config_);
    init_parameters(*model_, 0, std::nullopt);
    read_jobs(meta, {from.class_names, "the checkpoint " + from.origin}, num_classes);
    finish_config(config_);
  }

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
    load_weights_of(checkpoint, job.ema);
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

  // Copies the weights of the checkpoint, or their averages, into the model.
  void load_weights_of(const Restored& checkpoint, bool ema) {
    std::vector<std::pair<std::string, at::Tensor>> views;
    const auto name_of = [&](const char* kind, const std::string& path) {
      return (ema && checkpoint.tensors.contains("ema/" + path) ? "ema/" : kind) + path;
    };
    for (auto& [path, parameter] : named_parameters(*model_))
      views.emplace_back(name_of("params/", path), parameter.detach());
    for (auto& [path, buffer] : named_buffers(*model_))
      views.emplace_back(name_of("buffers/", path), buffer);
    copy_in(views, checkpoint.tensors, {}, checkpoint.folder);
  }

  const Precision precision_;
  const Config config_;
  const SpinThrottle throttle_{at::get_num_threads()};
  std::shared_ptr<Model> model_;
  std::unique_ptr<Task> task_;
  std::vector<EvalJob> jobs_;
};

// Opens a checkpoint. Computes with as many threads as the run did.
PredictModel open(const EvaluateRequest& request, const std::string& checkpoint) {
  PredictModel model = open_predict_model({checkpoint, "", request.config, request.overrides});
  const int threads = model.checkpoint->meta.value("compute_threads", at::get_num_threads());
  start_compute_threads(
      static_cast<int>(model.config.get<int64_t>("compute_threads", int64_t{threads})));
  return model;
}

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

// Waits until the workdir has a checkpoint after `step`, and returns those that it has. Returns
// none if the run has finished, or at once unless `follow`.
std::vector<int64_t> newer_steps(const Workdir& workdir, int64_t step, bool follow) {
  while (true) {
    const bool finished = workdir.finished().has_value();  // before the steps: none comes later
    std::vector<int64_t> steps = workdir.ckpt().steps();
    std::erase_if(steps, [step](int64_t each) { return each <= step; });
    if (!steps.empty() || finished || !follow) return steps;
    poll_signals();
    std::this_thread::sleep_for(kWait);
  }
}

}  // namespace

Evaluation evaluate_checkpoint(const EvaluateRequest& request, const std::string& checkpoint) {
  const PredictModel model = open(request, checkpoint);
  MetricWriter metrics({});
  metrics.begin_row(model.checkpoint->step);
  RunEvaluators(model).run(*model.checkpoint, metrics, "");
  return {model.checkpoint->step, metrics.row()};
}

int64_t evaluate_new_checkpoints(const EvaluateRequest& request, const std::string& output,
                                 bool follow) {
  const Workdir run(request.workdir);
  refuse_remote_path(request.workdir);
  if (!follow && !file_exists(request.workdir))
    throw Error(Exit::usage, request.workdir, "no such folder");
  if (follow && run.ckpt().steps().empty())
    log::info("Waiting for the first checkpoint in {}", run.ckpt().path());
  Workdir rows(output);
  rows.claim();
  int64_t last = last_row_step(rows.metrics()).value_or(-1), count = 0;
  MetricWriter metrics = open_rows(rows, request.workdir);
  std::string config;  // of the last checkpoint
  std::unique_ptr<RunEvaluators> evaluators;
  while (true) {
    const std::vector<int64_t> steps = newer_steps(run, last, follow);
    if (steps.empty()) break;
    for (const int64_t step : steps) {
      last = step;
      const std::string folder = run.ckpt().step(step);
      PredictModel model;
      try {
        model = open(request, folder);
      } catch (const Error& error) {
        if (file_exists(folder))
          log::warn("step {} is passed over: {}", step, error.what());
        else
          log::warn("step {} is passed over: the run has deleted its checkpoint", step);
        continue;
      }
      const auto text = model.checkpoint->meta.value("config", std::string());
      if (!evaluators || text != config) evaluators = std::make_unique<RunEvaluators>(model);
      config = text;
      metrics.begin_row(step);
      evaluators->run(*model.checkpoint, metrics, rows.dir());
      crash_point("evaluate.row");
      metrics.write_report();
      metrics.end_row();
      metrics.flush();
      ++count;
    }
  }
  metrics.close();
  return count;
}

}  // namespace bv
