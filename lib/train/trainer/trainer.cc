#include "lib/train/trainer/trainer.h"

#include <ATen/Parallel.h>

#include "lib/device/compute_threads.h"
#include "lib/device/cuda.h"
#include "lib/device/large_blocks.h"
#include "lib/device/spin_throttle.h"
#include "lib/report/live_line.h"
#include "lib/report/log.h"
#include "lib/report/trace.h"
#include "lib/train/start.h"
#include "lib/train/trainer/batch_pictures.h"
#include "lib/util/crash_point.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

constexpr double kProgressInterval = 0.2;  // seconds
constexpr int64_t kImages = 16;            // of a batch, for log_images_*

// The control word: what the ranks sum in every step.
enum ControlPlace : size_t {
  kClock,          // rank 0's
  kTrainingClock,  // rank 0's, without pauses
  kSigterm,        // ranks that have received this signal
  kSigint,
  kStopped,
  kFailures,  // examples that have failed for the first time
  kDigest,    // digest_in_word(), of the state
  kSquaredDigest
};
static_assert(kSquaredDigest + 1 == std::tuple_size_v<ControlWord>);

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
          nullptr, clock_start()),
      profile_(recipe.profile, workdir, group, recipe.device),
      pace_(total_steps_, recipe.length.batch_size) {
  open_checkpointer();
}

Trainer::~Trainer() = default;

double Trainer::clock_start() const {
  return options_.before ? options_.before->rolled_back : program_start();
}

Exit Trainer::run() {
  if (recipe_.nan_rolls_back && !workdir_)
    throw Error(Exit::usage, "nan: rollback", "needs a --workdir for the checkpoints to return to");
  if (workdir_) {
    workdir_->folder()->require_there();  // after `nan: rollback`, long after it was claimed
    log::open_file(workdir_->log(group_.rank()));
    workdir_->remember();  // on the ranks that have not claimed it
  }
  log_run();
  if (is_rank0()) restore();
  broadcast_start();
  start_compute_threads(recipe_.compute_threads);  // as many as the checkpoint requires
  const SpinThrottle throttle(recipe_.compute_threads);
  begun_ = true;
  done_step_ = first_step_;
  if (workdir_ && is_rank0()) {
    crash_point("start.files");
    workdir_->remove_end();
    checkpointer_->start();  // makes ckpt/ before the first row: see require_checkpoints()
    undo_dropped_changes();
    write_run_json(start_);
    keep_old_config();
    write_file_atomically(workdir_->config(), resolved_yaml(recipe_.config));
  }
  if (first_step_ < total_steps_) require_room();  // start() has deleted remains of killed saves
  open_metrics();
  open_skipped();
  open_selection();
  set_due_rules();
  start_chrono();
  try {
    if (resumed_here_ && first_step_ > 0)
      finish_interrupted_row();
    else if (first_step_ == 0 || first_step_ == total_steps_)
      initial_row();
    if (select(first_step_, {}))  // it had stopped early before
      log::info("The run {}", stopped_early_);
    else if (const Exit code = loop(); code != Exit::ok)
      return code;
  } catch (const Stopped& stopped) {
    return stop(step_, stopped.code);
  }
  finish();
  return Exit::ok;
}

void Trainer::log_run() const {
  log::info("Hello from process {} holding 1/{} devices and writing to workdir {}.", group_.rank(),
            group_.size(), workdir_ ? workdir_->dir() : "(none)");
  log::write_detail(recipe_.config.yaml());
  log::info("Global batch {}; {} training examples", recipe_.length.batch_size,
            recipe_.length.data_size);
  log::info("Running for {} steps, that means {:.2f} epochs", total_steps_,
            static_cast<double>(total_steps_) / recipe_.steps_per_epoch());
  if (recipe_.precision_choice.automatic)
    log::info("precision {}", recipe_.precision_choice.text());
  else if (!recipe_.precision_choice.reason.empty())
    log::info("precision bf16 saves no time here: {}", recipe_.precision_choice.reason);
  if (!recipe_.graph_refusal.empty())
    log::info("Steps run without a CUDA graph: {}", recipe_.graph_refusal);
  if (recipe_.image_normalization) log::info("Images are passed to the step as bytes");
}

void Trainer::open_metrics() {
  MetricWriter::Options options;
  options.logged = is_rank0();
  if (workdir_ && is_rank0()) {
    options.metrics_file = workdir_->metrics();
    options.tensorboard_dir = workdir_->tensorboard();
    options.report_file = workdir_->report();
    options.curve_file = workdir_->learning_curve();
    options.check_folder = [folder = workdir_->folder()] { folder->require_there(); };
    options.title = workdir_->dir();
    options.config_yaml = resolved_yaml(recipe_.config);
    options.facts = facts();
    options.steps_per_epoch = recipe_.steps_per_epoch();
    options.first_step = resumed_here_ ? first_step_ : 0;
    if (resumed_here_) {
      const ProcessSoFar all = process();
      // `uptime` counts from the last rollback of this start.
      options.earlier = {all.first_step, all.program_time + (clock_start() - program_start())};
      options.measured_anew = changed_metrics(config_changes_, recipe_.config,
                                              owners_of_shared_prefixes(recipe_.evals));
    }
  }
  metrics_ = std::make_unique<MetricWriter>(std::move(options));
  if (!resumed_here_ || !is_rank0()) return;
  note_changes();
  warn_of_lost_rows();
}

// The rules for when to log, and when to save or keep a checkpoint. plan_step() applies them.
void Trainer::set_due_rules() {
  log_due_.emplace(*recipe_.log_training, total_steps_, /*last=*/true, /*first=*/true);
  if (recipe_.log_images)
    images_due_.emplace(*recipe_.log_images, total_steps_, /*last=*/false, /*first=*/true);
  if (recipe_.ckpt && *recipe_.ckpt)  // with 0 only the last step is saved
    ckpt_due_.emplace(*recipe_.ckpt, total_steps_, /*last=*/true, /*first=*/true);
  // Without keep_ckpt_* the last step's checkpoint is kept, as in big_vision's train.py. The same
  // holds if no ckpt_* is given.
  keep_due_.emplace(recipe_.keep_ckpt.value_or(Every{total_steps_, 0}), total_steps_, /*last=*/true,
                    /*first=*/false);
}

void Trainer::start_chrono() {
  Chrono::Setup setup;
  setup.first_step = first_step_;
  setup.total_steps = total_steps_;
  setup.batch_size = recipe_.length.batch_size;
  setup.steps_per_epoch = recipe_.steps_per_epoch();
  setup.examples_before = position_ - left_out_ - first_step_ * recipe_.length.batch_size;
  setup.num_devices = group_.size();
  setup.logged = is_rank0();
  setup.device_kind = recipe_.device.is_cpu() ? "cpu" : cuda_name(recipe_.device.index());
  setup.example_flops = [this] { return recipe_.step->example_flops(); };
  setup.peak_flops = recipe_.peak_flops();
  setup.step_bytes = [this] { return recipe_.step->step_bytes(); };
  setup.state = chrono_state_;
  chrono_.inform(setup);
}

Exit Trainer::loop() {
  if (first_step_ < total_steps_) {
    LoaderOptions options = recipe_.loader;
    options.shift = position_ - first_step_ * recipe_.length.batch_size;
    loader_ = std::make_unique<Loader>(recipe_.data, options);
    loader_->seek(first_step_);
    for (const std::string& name : skipped_.examples(recipe_.loader.section))
      loader_->add_failed(name);
    log::note("Starting training loop...");
  }
  if (workdir_) {
    recipe_.step->on_bad_step([this](int64_t step, const std::string& why, bool before) {
      keep_bad_step(step, why, before);
    });
  }
  if (loader_) {
    logged_ = reading(first_step_);
    pace_.start(logged_);
  }
  release_large_tensors();  // of the start
  if (options_.before_first_step) options_.before_first_step();
  for (int64_t step = first_step_ + 1; step <= total_steps_; ++step) {
    step_ = step;
    profile_.at(step);
    const trace::Span span("step ", step);
    const Plan plan = plan_step(step);
    metrics_->begin_row(step);
    update(step, plan);
    measure(step, plan);
    // Reading it back from a GPU takes time, so that waits until the result is needed.
    const bool last = step == total_steps_;
    if (recipe_.device.is_cpu() || plan.log || !plan.evals.empty() || last) check_finite(step);
    due_evals_ = plan.evals;
    if (plan.save) save(step, *plan.save);
    run_due_evals(step);
    const bool ends = !plan.evals.empty() && select(step, plan.evals);
    if (ends) finish_early(step, plan.evals);
    metrics_->end_row();
    group_.note_step(step);
    done_step_ = step;
    pace_.add(reading(step), plan.log);
    const std::string here = fmt::format("step.rank{}", group_.rank());  // short: no heap memory
    crash_point(here);
    if (group_.size() > 1 && flips_bit(here))
      recipe_.step->params().data().view(at::kInt).select(0, 0).bitwise_xor_(1 << 23);
    if (is_rank0()) show_progress(step);
    if (is_rank0()) log_skipped_in_epoch(step);
    if (ends) return Exit::ok;
    const Exit code = group_.size() == 1 ? stop_requested() : agreed_stop_;
    if (code != Exit::ok && step < total_steps_) return stop(step, code);
  }
  return Exit::ok;
}

// This rank's part of the control word.
ControlWord Trainer::control_word() const {
  ControlWord word{};
  const Exit stop = stop_requested();
  word[kClock] = is_rank0() ? chrono_.now() : 0;
  word[kTrainingClock] = is_rank0() ? training_clock() : 0;
  word[kSigterm] = stop == Exit::sigterm;
  word[kSigint] = stop == Exit::sigint;
  word[kStopped] = stop == Exit::stopped;
  word[kFailures] = static_cast<double>(failed_now_.size());
  const auto [digest, squared] = digest_in_word();
  word[kDigest] = digest;
  word[kSquaredDigest] = squared;
  return word;
}

void Trainer::apply_agreement(const ControlWord& sums) {
  compare_digests({sums[kDigest], sums[kSquaredDigest]});
  agreed_clock_ = sums[kClock];
  agreed_training_clock_ = sums[kTrainingClock];
  agreed_stop_ = sums[kSigterm] > 0   ? Exit::sigterm
                 : sums[kSigint] > 0  ? Exit::sigint
                 : sums[kStopped] > 0 ? Exit::stopped
                                      : Exit::ok;
  if (sums[kFailures] > 0)
    list_skipped(step_, gather_failed(group_, std::exchange(failed_now_, {})));
}

// Returns the clock that decides what is logged and saved. It is the same on all ranks.
double Trainer::agreed_now() const { return group_.size() == 1 ? chrono_.now() : agreed_clock_; }

// Returns the clock that decides which evaluators are due. It is the same on all ranks. If the time
// of evaluations counted, evaluators that take as long as their interval would be due at every
// step.
double Trainer::agreed_training_now() const {
  return group_.size() == 1 ? training_clock() : agreed_training_clock_;
}

// Returns the clock of this process without the pauses for evaluations and saves, also those before
// a return to a checkpoint: the evaluators keep their intervals.
double Trainer::training_clock() const {
  const double before = options_.before ? options_.before->paused_seconds : 0;
  return chrono_.now() - before - chrono_.paused_seconds();
}

Trainer::Plan Trainer::plan_step(int64_t step) {
  const double now = agreed_now();
  Plan plan;
  // The first two steps of a run are always logged, because Chrono warms up on them. A resumed run
  // warms up its Chrono without adding rows.
  const bool grown = is_growth_step(step, recipe_.growth_ratios);
  plan.log = (*log_due_)(step, now) || step <= 2 || grown;
  const bool keeps = (*keep_due_)(step, now);
  plan.images = images_due_ && (*images_due_)(step, now);
  const bool saves = ckpt_due_ && ((*ckpt_due_)(step, now) || grown);
  if (workdir_ && keeps) plan.save = Save::keep;
  if (workdir_ && saves && !keeps)
    plan.save = step == total_steps_ ? Save::always : Save::may_be_left_out;
  for (EvalJob& job : recipe_.evals) {
    if (job.due && (*job.due)(step, agreed_training_now())) plan.evals.insert(job.name);
  }
  return plan;
}

void Trainer::update(int64_t step, const Plan& plan) {
  const auto run = [&] {
    trace::Span wait("wait for data");
    const Batch& batch = next_batch(step);
    wait.end();
    if (plan.images && is_rank0() && batch.contains("image"))
      metrics_->images(batch_pictures(batch.at("image"), kImages));
    apply_agreement(recipe_.step->run(step, batch, plan.log, control_word()));
    if (recipe_.step->skipped().empty()) return;
    if (recipe_.nan_rolls_back) roll_back(step);
    count_skipped_step(step);
  };
  if (step != first_step_ + 1) return run();
  chrono_muted_ = !plan.log;
  chrono_.time("z/secs/update0", run);
  chrono_muted_ = false;
}

// Measures before the step's checkpoint is saved, so that the checkpoint can contain the row.
void Trainer::measure(int64_t step, const Plan& plan) {
  if (plan.log) {
    for (const auto& [name, value] : recipe_.step->measurements(step))
      metrics_->measure(name, value);
    if (recipe_.step->compares_states()) digest_ = recipe_.step->digest();
    const Pace::Reading now = reading(step);
    metrics_->measure("data_wait", Pace::Span{logged_, now}.data_wait());
    logged_ = now;
    measure_epochs_of_parts(step);
    if (recipe_.nan_rolls_back)
      metrics_->measure("rollbacks", static_cast<double>(earlier_.rollbacks.size()));
    else if (recipe_.nan_limit)
      metrics_->measure("skipped_steps", static_cast<double>(skipped_steps_));
  }
  const bool in_row = plan.log || !plan.evals.empty();
  if (in_row) measure_skipped();
  if (in_row)
    chrono_.tick(step);
  else if (chrono_.warming_up())
    chrono_.advance(step);
}

Pace::Reading Trainer::reading(int64_t step) const {
  return {step, chrono_.now(), chrono_.paused_seconds(), loader_->wait_seconds()};
}

void Trainer::show_progress(int64_t step, const std::string& evaluator) {
  const double now = chrono_.now();
  if (now - shown_ < kProgressInterval) return;
  shown_ = now;
  LiveNumbers numbers;
  numbers.step = step;
  numbers.total_steps = total_steps_;
  numbers.evaluator = evaluator;
  numbers.take(metrics_->summary());
  numbers.take(pace_);
  numbers.memory = resident_bytes();
  if (!recipe_.device.is_cpu()) numbers.memory_name = "host mem";
  log::progress(live_line(numbers));
}

}  // namespace bv
