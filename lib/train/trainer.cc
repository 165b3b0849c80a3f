#include "lib/train/trainer.h"

#include <ATen/Parallel.h>

#include <limits>
#include <random>
#include <sstream>

#include "lib/ckpt/crash_point.h"
#include "lib/device/cuda.h"
#include "lib/device/spin_throttle.h"
#include "lib/report/log.h"
#include "lib/report/trace.h"
#include "lib/train/signals.h"
#include "lib/train/start.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr double kProgressInterval = 0.2;  // seconds

// Stops the training clock during its lifetime.
class PausedChrono {
 public:
  explicit PausedChrono(Chrono& chrono) : chrono_(chrono) { chrono_.pause(); }
  ~PausedChrono() { chrono_.resume(); }
  PausedChrono(const PausedChrono&) = delete;

 private:
  Chrono& chrono_;
};

}  // namespace

Trainer::Trainer(Recipe& recipe, Workdir* workdir, TrainerOptions options, Group& group)
    : recipe_(recipe),
      workdir_(workdir),
      group_(group),
      options_(std::move(options)),
      total_steps_(recipe.length.total_steps),
      chrono_(
          [this](std::string_view name, double value) {
            if (!chrono_muted_) metrics_->measure(name, value);
          },
          nullptr, program_start()),
      profile_(recipe.profile, workdir, group) {
  open_checkpointer();
}

Trainer::~Trainer() = default;

void Trainer::open_checkpointer() {
  Writers writers;
  if (recipe_.step->sharded()) {
    const std::string id = fmt::format("{:08x}", std::random_device()());
    writers = {group_.rank(), group_.size(), group_.gather_text(id, "save id").at(0)};
  }
  if (writes_checkpoints())
    checkpointer_ = std::make_unique<Checkpointer>(*workdir_, std::move(writers));
}

Exit Trainer::run() {
  if (workdir_) log::open_file(workdir_->log(group_.rank()));
  log::info("Hello from process {} holding 1/{} devices and writing to workdir {}.", group_.rank(),
            group_.size(), workdir_ ? workdir_->dir() : "(none)");
  log::write_detail(recipe_.config.yaml());
  log::info("Global batch {}; {} training examples", recipe_.length.batch_size,
            recipe_.length.data_size);
  log::info("Running for {} steps, that means {:.2f} epochs", total_steps_,
            static_cast<double>(total_steps_) / recipe_.steps_per_epoch());
  {
    const Group::Phase phase(group_, "start");
    if (is_rank0()) restore();
    broadcast_start();
  }
  const SpinThrottle throttle(recipe_.compute_threads);
  if (workdir_ && is_rank0()) {
    write_run_json(start_);
    write_file_atomically(workdir_->config(), resolved_yaml(recipe_.config));
  }
  open_metrics();
  set_due_rules();
  Chrono::Setup setup;
  setup.first_step = first_step_;
  setup.total_steps = total_steps_;
  setup.batch_size = recipe_.length.batch_size;
  setup.steps_per_epoch = recipe_.steps_per_epoch();
  setup.num_devices = group_.size();
  setup.device_kind = recipe_.device.is_cpu() ? "cpu" : cuda_name(recipe_.device.index());
  setup.state = chrono_state_;
  chrono_.inform(setup);
  try {
    if (resumed_here_ && first_step_ > 0)
      finish_interrupted_row();
    else if (first_step_ == 0 || first_step_ == total_steps_)
      initial_row();
    if (const Exit code = loop(); code != Exit::ok) return code;
  } catch (const Stopped& stopped) {
    return stop(step_, stopped.code);
  }
  finish();
  return Exit::ok;
}

void Trainer::open_metrics() {
  MetricWriter::Options options;
  if (workdir_ && is_rank0()) {
    options.metrics_file = workdir_->metrics();
    options.tensorboard_dir = workdir_->tensorboard();
    options.report_file = workdir_->report();
    options.curve_file = workdir_->learning_curve();
    options.title = workdir_->dir();
    options.config_yaml = resolved_yaml(recipe_.config);
    options.steps_per_epoch = std::llround(recipe_.steps_per_epoch());
    options.first_step = resumed_here_ ? first_step_ : 0;
  }
  metrics_ = std::make_unique<MetricWriter>(std::move(options));
}

// The rules when to log, to save and to keep a checkpoint. plan_step() applies them.
void Trainer::set_due_rules() {
  log_due_.emplace(*recipe_.log_training, total_steps_, /*last=*/true, /*first=*/true);
  if (recipe_.ckpt) ckpt_due_.emplace(*recipe_.ckpt, total_steps_, /*last=*/true, /*first=*/true);
  // Without keep_ckpt_* the last step's checkpoint is kept, as in big_vision's train.py. The same
  // holds if no ckpt_* is given.
  keep_due_.emplace(recipe_.keep_ckpt.value_or(Every{total_steps_, 0}), total_steps_, /*last=*/true,
                    /*first=*/false);
}

// Writes the row of step 0: num_params and the results of the evaluators. A run that starts from
// the last step of another run writes the row of that step.
void Trainer::initial_row() {
  metrics_->begin_row(first_step_);
  int64_t params = 0;
  for (const auto& entry : recipe_.step->params().entries()) params += entry.numel;
  metrics_->measure("num_params", static_cast<double>(params));
  if (!recipe_.evals.empty()) log::note("Running initial or final evals...");
  for (const EvalJob& job : recipe_.evals) {
    if (!job.skip_first || first_step_ == total_steps_) due_evals_.insert(job.name);
  }
  run_due_evals(first_step_);
  metrics_->end_row();
}

// A checkpoint is saved before the evaluators of its step run. If the run died between the two, the
// file has no row for that step. The checkpoint holds what the row had measured and names the
// evaluators that were still to run, so they run now.
void Trainer::finish_interrupted_row() {
  const int64_t had = is_rank0() && metrics_->had_row(first_step_);
  if (group_.all_max(std::array{had}, "last row").at(0)) return;
  metrics_->begin_row(first_step_);
  for (const auto& [name, value] : interrupted_row_) metrics_->measure(name, value);
  for (EvalJob& job : recipe_.evals) {
    // Older checkpoints do not name them. log_steps then tells what was due; log_seconds cannot.
    const bool due = interrupted_evals_ ? interrupted_evals_->contains(job.name)
                                        : job.due && (*job.due)(first_step_, agreed_now());
    if (due) due_evals_.insert(job.name);
  }
  run_due_evals(first_step_);
  metrics_->end_row();
}

Exit Trainer::loop() {
  if (first_step_ < total_steps_) {
    loader_ = std::make_unique<Loader>(recipe_.data, recipe_.pp, recipe_.loader);
    loader_->seek(first_step_);
    log::note("Starting training loop...");
  }
  wait_start_ = chrono_.now();
  for (int64_t step = first_step_ + 1; step <= total_steps_; ++step) {
    step_ = step;
    profile_.at(step);
    const trace::Span span("step ", step);
    const Plan plan = plan_step(step);
    metrics_->begin_row(step);
    update(step, plan);
    measure(step, plan);
    due_evals_ = plan.evals;
    if (plan.save) save(step, plan.keep);
    run_due_evals(step);
    metrics_->end_row();
    group_.note_step(step);
    if (group_.size() > 1) crash_point(fmt::format("step.rank{}", group_.rank()));
    if (is_rank0()) show_progress(step);
    const Exit code = group_.size() == 1 ? stop_requested() : agreed_stop_;
    if (code != Exit::ok && step < total_steps_) return stop(step, code);
  }
  return Exit::ok;
}

// This rank's part of what the ranks add up in every step: rank 0's clock, how many ranks have
// received each signal, and how many examples failed.
ControlWord Trainer::control_word() const {
  const Exit stop = stop_requested();
  const auto failures = static_cast<double>(loader_->errors());
  return {is_rank0() ? chrono_.now() : 0.0, stop == Exit::sigterm ? 1.0 : 0.0,
          stop == Exit::sigint ? 1.0 : 0.0, stop == Exit::stopped ? 1.0 : 0.0, failures};
}

void Trainer::apply_agreement(const ControlWord& sums) {
  agreed_clock_ = sums[0];
  agreed_stop_ = sums[1] > 0   ? Exit::sigterm
                 : sums[2] > 0 ? Exit::sigint
                 : sums[3] > 0 ? Exit::stopped
                               : Exit::ok;
  if (group_.size() > 1 && sums[4] > failures_) count_failures(sums[4]);
}

// Checks the error budget. Each rank's loader counts its own failures, and several ranks may meet
// the same broken example in different epochs. The ranks therefore exchange the indices.
void Trainer::count_failures(double sum) {
  failures_ = sum;
  const int64_t budget = recipe_.loader.error_budget;
  if (budget == std::numeric_limits<int64_t>::max()) return;
  std::string mine;
  for (const int64_t index : loader_->failed())
    if (!failed_.contains(index)) mine += fmt::format("{} ", index);
  for (const std::string& text : group_.gather_text(mine, "failed examples")) {
    std::istringstream indices(text);
    for (int64_t index = 0; indices >> index;) failed_.insert(index);
  }
  if (std::ssize(failed_) <= budget) return;
  throw Error::in("input", Exit::data,
                  fmt::format("{} examples failed on all ranks together, the error budget is {}",
                              failed_.size(), budget));
}

// Returns the clock that decides what is due. It is the same on all ranks.
double Trainer::agreed_now() const { return group_.size() == 1 ? chrono_.now() : agreed_clock_; }

Trainer::Plan Trainer::plan_step(int64_t step) {
  const double now = agreed_now();
  Plan plan;
  // The first two steps of a run are always logged, because Chrono warms up on them. A resumed run
  // warms up its Chrono without adding rows.
  plan.log = (*log_due_)(step, now) || step <= 2;
  plan.keep = (*keep_due_)(step, now);
  plan.save = ((ckpt_due_ && (*ckpt_due_)(step, now)) || plan.keep) && workdir_;
  for (EvalJob& job : recipe_.evals) {
    if (job.due && (*job.due)(step, now)) plan.evals.insert(job.name);
  }
  return plan;
}

void Trainer::update(int64_t step, const Plan& plan) {
  const auto run = [&] {
    trace::Span wait("wait for data");
    const Batch& batch = loader_->next();
    wait.end();
    apply_agreement(recipe_.step->run(step, batch, plan.log, control_word()));
  };
  if (step != first_step_ + 1) return run();
  chrono_muted_ = !plan.log;
  chrono_.time("z/secs/update0", run);
  chrono_muted_ = false;
}

// Measures before the step's checkpoint is saved, so that the checkpoint can hold the row.
void Trainer::measure(int64_t step, const Plan& plan) {
  if (plan.log) {
    for (const auto& [name, value] : recipe_.step->measurements(step)) {
      metrics_->measure(name, value);
      if (name == "training_loss") last_loss_ = value;
    }
    check_finite(step);
    const double now = chrono_.now();
    metrics_->measure("data_wait",
                      (loader_->wait_seconds() - waited_) / std::max(now - wait_start_, 1e-9));
    waited_ = loader_->wait_seconds();
    wait_start_ = now;
  }
  const bool in_row = plan.log || !plan.evals.empty();
  if (!in_row && !plan.save && !chrono_.warming_up()) return;
  chrono_muted_ = !in_row;
  chrono_.tick(step);
  chrono_muted_ = false;
}

// Throws Error(Exit::diverged) after a step with a NaN or infinite value. That step's row is never
// written.
void Trainer::check_finite(int64_t step) const {
  const std::string bad = recipe_.step->non_finite();
  if (bad.empty()) return;
  const int64_t interval = std::max<int64_t>(log_due_->every().steps, 1);
  throw Error::in("train", Exit::diverged,
                  fmt::format("{} became nan or inf somewhere within steps [{}, {}]", bad,
                              std::max<int64_t>(step - interval, 0), step));
}

void Trainer::save(int64_t step, bool keep) {
  check_finite(step);  // a state with NaN or infinity is never committed
  saved_step_ = step;
  if (!writes_checkpoints()) return;
  const PausedChrono paused(chrono_);
  const Group::Phase phase(group_, "checkpoint");
  const trace::Span span("checkpoint snapshot");
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.tensors = recipe_.step->state(&snapshot.pieced);
  nlohmann::json row = nlohmann::json::array();
  for (const auto& [name, value] : metrics_->row()) {
    // JSON has no NaN or infinity.
    if (std::isfinite(value))
      row.push_back({name, value});
    else
      row.push_back({name, fmt::format("{}", value)});
  }
  const Chrono::State& chrono = chrono_.state();
  snapshot.meta = {
      {"tool_version", options_.tool_version},
      {"commit", options_.commit},
      {"config", recipe_.config.json()},
      {"compute_threads", recipe_.compute_threads},
      {"ranks", group_.size()},
      {"class_names", recipe_.data->source().class_names()},
      {"image", {recipe_.env().height, recipe_.env().width, recipe_.env().channels}},
      {"row", row},
      {"due_evals", due_evals_},
      {"chrono",
       {{"accum_program_time", chrono.accum_program_time},
        {"accum_train_time", chrono.accum_train_time},
        {"accum_pause_time", chrono.accum_pause_time},
        {"accum_device_time", chrono.accum_device_time},
        {"accum_examples_seen", chrono.accum_examples_seen}}},
  };
  checkpointer_->save(std::move(snapshot), keep);
}

void Trainer::run_due_evals(int64_t step) {
  for (EvalJob& job : recipe_.evals) {
    if (due_evals_.contains(job.name)) evaluate(job, step);
  }
}

void Trainer::evaluate(EvalJob& job, int64_t step) {
  const PausedChrono paused(chrono_);
  const Group::Phase phase(group_, "evaluation");
  crash_point(fmt::format("eval.rank{}", group_.rank()));
  const trace::Span span("evaluation ", job.name);
  log::note("{} evaluation...\n{}", job.name, chrono_.note());
  EvalContext context;
  context.step = step;
  context.group = &recipe_.group;
  context.poll = [this] {
    if (group_.size() == 1) return poll_signals();
    // All ranks must make the same decision.
    const auto code = static_cast<int64_t>(stop_requested());
    const int64_t all = group_.all_max(std::array{code}, "evaluation").at(0);
    if (all != 0) throw Stopped{static_cast<Exit>(all)};
  };
  context.report = workdir_ != nullptr;
  if (workdir_ && is_rank0())
    context.details = [this](EvalDetails details) { metrics_->details(std::move(details)); };
  if (workdir_) context.workdir = workdir_->dir();
  context.predict = bind_prediction(*recipe_.task, job.pred, *recipe_.model, recipe_.precision);
  std::string line;
  const Measure emit = [&](std::string_view name, double value) {
    metrics_->measure(job.prefix + std::string(name), value);
    line += fmt::format("{}{}{}={:.4g}", line.empty() ? "" : "  ", job.prefix, name, value);
  };
  chrono_.time("z/secs/eval/" + job.name, [&] {
    const auto weights = job.ema ? recipe_.step->use_ema() : nullptr;
    try {
      job.evaluator->run(context, emit);
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      if (weights) weights->abandon();
      throw;
    }
  });
  if (!line.empty()) log::info("[{}] {}", step, line);
  metrics_->write_report();
  due_evals_.erase(job.name);
}

void Trainer::show_progress(int64_t step) {
  const double now = chrono_.now();
  if (now - shown_ < kProgressInterval) return;
  shown_ = now;
  std::string line =
      fmt::format("step {}/{} {:.1f}%  epoch {:.2f}  loss {:.4g}", step, total_steps_,
                  100.0 * static_cast<double>(step) / static_cast<double>(total_steps_),
                  static_cast<double>(step) / recipe_.steps_per_epoch(), last_loss_);
  if (chrono_.images_per_second() > 0)
    line += fmt::format("  {} img/s", human_count(std::llround(chrono_.images_per_second())));
  if (chrono_.eta_seconds() > 0) line += "  ETA " + duration_text(chrono_.eta_seconds());
  log::progress(line);
}

}  // namespace bv
