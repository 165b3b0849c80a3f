// The start of a run: from the workdir's own checkpoint, from another run (`resume`), from a
// weights file (`model_init`) or from scratch. trainer.h says which rank reads what.
#include <c10/core/GradMode.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>

#include "lib/ckpt/weights_file.h"
#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/device/device_name.h"
#include "lib/model/target_scale.h"
#include "lib/report/log.h"
#include "lib/report/params_table.h"
#include "lib/train/start.h"
#include "lib/train/trainer/rollback.h"
#include "lib/train/trainer/trainer.h"
#include "lib/train/weights/weights.h"
#include "lib/util/crash_point.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "lib/util/json_text.h"
#include "lib/util/text.h"
#include "lib/util/version_text.h"

namespace bv {
namespace {

// Returns "digits train: 1,437 examples" for the keys of a `data` section.
std::string data_text(const nlohmann::json& keys, int64_t examples) {
  std::string out;
  for (const char* key : {"name", "split"}) {
    if (!keys.is_object() || !keys.contains(key) || !keys.at(key).is_string()) continue;
    out += (out.empty() ? "" : " ") + keys.at(key).get<std::string>();
  }
  return fmt::format("{}{}{} examples", out, out.empty() ? "" : ": ", human_count(examples));
}

}  // namespace

// What this rank reads from a checkpoint to continue from it.
ReadOptions Trainer::read_options() const {
  const TrainStep& step = *recipe_.step;
  return {.sharded = ShardedAs::pieces,
          .wanted = step.sharded() ? step.wanted() : nullptr,
          .resumes = true};
}

void Trainer::restore() {
  if (workdir_) {
    if (auto found = Checkpointer::latest(*workdir_, read_options())) {
      earlier_ = read_earlier_starts(workdir_->run_json());
      load_checkpoint(*found, "workdir");
      take_changes(*found);
      resumed_here_ = true;
      starts_ = starts_of(*found);
      add_start(starts_, first_step_ + 1);
      saved_step_ = first_step_;
      if (found->keep) kept_step_ = first_step_;
      return;
    }
  }
  load_start();
  add_start(starts_, 0);
  if (start_ == "model_init") log::note("Initialize model from {}...", recipe_.start.model_init);
  if (recipe_.step->sharded()) return;  // broadcast_state() logs them
  log::note("Logging parameter overview...");
  log_parameters();
}

void Trainer::load_start() {
  crash_point("start.load");
  if (!start_.empty() || (workdir_ && !workdir_->ckpt().steps().empty())) return;
  const StartFrom& from = recipe_.start;
  if (!from.resume.empty() && is_checkpoint(from.resume)) {
    load_checkpoint(Checkpointer::load(from.resume, read_options()), "resume");
  } else if (!from.resume.empty()) {
    std::vector<WeightCopy> weights = plan_weights(from.resume, *recipe_.model, {});
    require_finite(weights, from.resume);
    warn_of_other_classes("resume", from.resume, weights);
    copy_weights(std::move(weights));
    log::warn(
        "resume: {} holds parameters only; the optimizer's state, the step and the clock start "
        "from zero",
        from.resume);
    start_ = "resume";
  } else if (!from.model_init.empty()) {
    std::vector<WeightCopy> weights = plan_weights(
        from.model_init, *recipe_.model, from.dont_load.patterns, from.dont_load.place.text());
    require_finite(weights, from.model_init);
    warn_of_other_classes("model_init", from.model_init, weights);
    warn_of_untrained(weights);
    copy_weights(std::move(weights));
    start_ = "model_init";
  } else {
    warn_of_untrained({});
    start_ = "scratch";
  }
}

// With total_steps: 0, the parameters that no file sets stay untrained.
void Trainer::warn_of_untrained(const std::vector<WeightCopy>& weights) const {
  if (recipe_.length.total_steps > 0) return;
  std::set<std::string> loaded;
  for (const WeightCopy& copy : weights) loaded.insert(copy.name);
  std::vector<std::string> rest;
  for (const auto& [name, value] : named_parameters(*recipe_.model)) {
    if (!loaded.contains(name)) rest.push_back(name);
  }
  if (rest.empty()) return;
  log::warn(
      "total_steps: 0 trains nothing, and no file sets these parameters: they keep their initial "
      "values: {}",
      short_list(rest));
}

// A last layer that was trained with other classes predicts those classes, and one of a regression
// the targets that it was trained with.
void Trainer::warn_of_other_classes(const std::string& key, const std::string& file,
                                    const std::vector<WeightCopy>& weights) const {
  const bool head = std::any_of(weights.begin(), weights.end(), [](const WeightCopy& copy) {
    return copy.name.starts_with("head/");
  });
  const std::vector<std::string>& ours = recipe_.data->class_names();
  if (!head || ours.empty()) return;
  const std::vector<std::string> theirs = class_names_of(file);
  if (theirs.empty() || theirs == ours) return;
  const bool targets = recipe_.config.is_text("task", "regress");
  // Training does not change the scale of the targets.
  const bool scale = std::any_of(weights.begin(), weights.end(), [](const WeightCopy& copy) {
    return copy.name == fmt::format("buffers/{}", kTargetMean);
  });
  log::warn(
      "{}: the last layer of {} was trained for the {} {}, but those of this run are {}: "
      "its outputs stand for the wrong {} until training has adapted it{}; {}model_load: "
      "{{dont_load: [{}'head/.*']}} starts with a new layer",
      key, file, targets ? "targets" : "classes", short_list(theirs), short_list(ours),
      targets ? "targets" : "classes", scale ? ", and it keeps their scale" : "",
      key == "resume" ? "model_init with " : "", scale ? "'buffers/targets/.*', " : "");
}

// Copies weights from a file into the model. Weights of sharded parameters are kept until rank 0
// can broadcast them.
void Trainer::copy_weights(std::vector<WeightCopy> weights) {
  const std::set<std::string> sharded = recipe_.step->sharded_parameters();
  const c10::AutoGradMode no_grad(false);
  for (WeightCopy& copy : weights) {
    if (sharded.contains(copy.name))
      sharded_weights_[copy.name] = std::move(copy.from);
    else
      copy.to.copy_(copy.from);
  }
}

void Trainer::broadcast_sharded_weights() {
  std::string mine;
  for (const auto& [name, value] : sharded_weights_) mine += name + "\n";
  std::set<std::string> names;
  for (const std::string& name : split(group_.broadcast_text(mine, "names of weights"), '\n'))
    names.insert(name);
  recipe_.step->set_sharded_parameters(
      names, [&](const std::string& name) { return sharded_weights_.at(name); });
  sharded_weights_.clear();
}

// Broadcasts what rank 0 has read.
void Trainer::broadcast_start() {
  if (group_.size() == 1) return;
  nlohmann::json evals;  // null: the checkpoint does not name them
  if (interrupted_evals_) evals = *interrupted_evals_;
  const nlohmann::json mine = {{"first_step", first_step_},
                               {"resumed_here", resumed_here_},
                               {"position", position_},
                               {"examples_left_out", left_out_},
                               {"skipped_steps", skipped_steps_},
                               {"saved_step", saved_step_},
                               {"kept_step", kept_step_},
                               {"start", start_},
                               {"interrupted_evals", evals},
                               {"now", chrono_.now()},
                               {"training_now", training_clock()},
                               {"threads", recipe_.compute_threads},
                               {"chrono", chrono_state_}};
  const auto shared = nlohmann::json::parse(group_.broadcast_text(json_text(mine), "start"));
  first_step_ = step_ = shared.at("first_step");
  resumed_here_ = shared.at("resumed_here");
  position_ = shared.at("position");
  left_out_ = shared.at("examples_left_out");
  skipped_steps_ = shared.at("skipped_steps");
  saved_step_ = shared.at("saved_step");
  kept_step_ = shared.at("kept_step");
  start_ = shared.at("start");
  // Not in the JSON: that must be UTF-8, and a path may hold other bytes.
  start_folder_ = group_.broadcast_text(start_folder_, "start folder");
  interrupted_evals_.reset();
  if (!shared.at("interrupted_evals").is_null())
    interrupted_evals_ = shared.at("interrupted_evals").get<std::set<std::string>>();
  agreed_clock_ = shared.at("now");
  agreed_training_clock_ = shared.at("training_now");
  chrono_state_ = shared.at("chrono");
  recipe_.compute_threads = shared.at("threads");
  broadcast_state();
  const TrainStep::Memory memory = recipe_.step->memory();
  log::info("This rank holds {} of parameters, {} of gradients, {} of optimizer state and averages",
            human_bytes(static_cast<double>(memory.parameters)),
            human_bytes(static_cast<double>(memory.gradients)),
            human_bytes(static_cast<double>(memory.state)));
}

void Trainer::broadcast_state() {
  TrainStep& step = *recipe_.step;
  if (!step.sharded()) return step.broadcast_state();
  if (start_folder_.empty()) {
    step.broadcast_state();
    if (start_ != "scratch") broadcast_sharded_weights();
    if (is_rank0()) log::note("Logging parameter overview...");
    log_parameters();
  } else if (!is_rank0()) {  // copies the whole tensors and this rank's slices; rank 0 has done so
    const Restored from = Checkpointer::reopen(start_folder_, read_options());
    if (from.step != first_step_) {
      throw Error(Exit::usage, from.folder,
                  fmt::format("belongs to step {} here, but rank 0 continues from step {} (do all "
                              "ranks see the same folder?)",
                              from.step, first_step_));
    }
    load_run_state(step, from);
  }
}

void Trainer::log_parameters() const {
  std::vector<ParamRow> rows;
  std::map<std::string, const FlatParams::Entry*> entries;
  for (const auto& entry : recipe_.step->params().entries()) entries[entry.name] = &entry;
  const auto statistics = recipe_.step->statistics();
  for (const auto& [name, value] : named_parameters(*recipe_.model)) {  // in the model's order
    const auto [mean, deviation] = statistics.at(rows.size());
    rows.push_back(
        {name, value.sizes().vec(), mean, deviation, entries.at(name)->group == kFrozen});
  }
  if (is_rank0()) log::write_info(params_table(rows));
}

void Trainer::load_checkpoint(const Restored& from, const std::string& why) {
  log::note("Resuming training from checkpoint {}...", from.folder);
  const std::string device = device_name(recipe_.device);
  const auto before = from.meta.value("device", device);  // older checkpoints do not name it
  if (before != device) {
    log::info(
        "The checkpoint is from '{}', this is '{}': results may differ by rounding from those "
        "of a run that was not interrupted",
        before, device);
  }
  warn_of_other_version(from);
  load_run_state(*recipe_.step, from);
  start_folder_ = from.folder;
  first_step_ = step_ = from.step;
  start_ = why;
  check_step(from, total_steps_);
  position_ = from.meta.value("position", first_step_ * recipe_.length.batch_size);
  left_out_ = from.meta.value("examples_left_out", int64_t{0});
  if (why == "workdir") {
    const int64_t more = examples_left_out(earlier_.rollbacks, from);
    position_ += more;
    left_out_ += more;
  }
  warn_of_other_length();
  const auto& chrono = from.meta.at("chrono");
  chrono_state_ = chrono;
  // Older checkpoints do not contain the number of ranks. Assume the current one.
  const int ranks = from.meta.value("ranks", group_.size());
  if (!chrono.contains("accum_device_time"))
    chrono_state_.accum_device_time = chrono_state_.accum_train_time * ranks;
  for (const auto& entry : from.meta.at("row")) {
    const auto& value = entry.at(1);  // NaN and infinity are strings
    interrupted_row_.emplace_back(
        entry.at(0), value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>());
  }
  if (why == "workdir") {
    skipped_steps_ = from.meta.value("skipped_steps", int64_t{0});
    last_row_ = from.meta.value("last_row", int64_t{-1});  // not in older checkpoints
  }
  if (from.meta.contains("due_evals"))  // not in older checkpoints
    interrupted_evals_ = from.meta.at("due_evals").get<std::set<std::string>>();
  adopt_threads(from.meta.at("compute_threads"), ranks);
}

// A version may round differently, have another default of a key, or measure a metric differently.
void Trainer::warn_of_other_version(const Restored& from) const {
  const std::string now = version_text(options_.tool_version, options_.commit);
  const std::string before =
      version_text(from.meta.value("tool_version", ""), from.meta.value("commit", ""));
  if (before.empty() || before == now || !is_rank0()) return;
  log::warn(
      "the checkpoint is from bvtrain {}, this is bvtrain {}: results may differ from those of a "
      "run with one version only",
      before, now);
}

// `total_epochs` and the schedules are counted in steps of the current batch size, even if the
// steps so far had another one.
void Trainer::warn_of_other_length() const {
  const int64_t batch = recipe_.length.batch_size, seen = position_ - left_out_;
  if (seen == first_step_ * batch || recipe_.length.data_size == 0) return;
  const auto epochs = [&](int64_t examples) {
    return static_cast<double>(examples) / static_cast<double>(recipe_.length.data_size);
  };
  log::warn(
      "the first {} steps had another batch size: the run ends after {:.2f} epochs, not {:.2f}, "
      "and its schedules continue at step {} of {}; to change the end, set total_steps",
      human_count(first_step_), epochs(seen + (total_steps_ - first_step_) * batch),
      epochs(total_steps_ * batch), human_count(first_step_ + 1), human_count(total_steps_));
}

// Uses as many threads as the checkpoint's run did, so that the next steps are bit-identical to
// those without the restart, on the same CPU model. The key compute_threads takes precedence. With
// another number of ranks, each rank has another share of the cores, and the number is not changed.
// Nor is it with fewer cores than threads, because that would be many times slower.
void Trainer::adopt_threads(int threads, int ranks) {
  if (threads == recipe_.compute_threads || ranks != group_.size()) return;
  if (recipe_.config.has("compute_threads")) {
    log::info("Computing with {} threads, as configured; this run was started with {}",
              recipe_.compute_threads, threads);
    return;
  }
  if (const int cores = available_cores(); threads > cores) {
    if (is_rank0()) {
      log::warn(
          "this run was started with {} threads, but this process may use only {}: computing with "
          "{}; the last digits of the results differ from those of an uninterrupted run",
          threads, counted(cores, "core"), counted(recipe_.compute_threads, "thread"));
    }
    return;
  }
  log::info("Computing with {} threads, not {}, so that the run continues bitwise exactly", threads,
            recipe_.compute_threads);
  recipe_.compute_threads = threads;
}

// The rows before a checkpoint were on disk before it counted.
void Trainer::warn_of_lost_rows() const {
  if (last_row_ < 0 || metrics_->had_row(last_row_)) return;
  std::vector<std::string> keys;
  if (!recipe_.selection.best.empty()) keys.emplace_back("`best`");
  if (recipe_.selection.early_stop) keys.emplace_back("`early_stop`");
  log::warn(
      "{}: rows up to step {} are missing, which the run wrote before the checkpoint of step {}; "
      "it continues without them{}; to keep them, stop it and put the file back",
      workdir_->metrics(), last_row_, first_step_,
      keys.empty() ? "" : fmt::format(", and {} without their values", join(keys, " and ")));
}

// All ranks restore the skipped examples from the workdir's checkpoint.
void Trainer::open_skipped() {
  std::string lines;
  if (workdir_ && is_rank0())
    lines = skipped_.open(workdir_->skipped(), resumed_here_ ? first_step_ : -1,
                          [folder = workdir_->folder()] { folder->require_there(); });
  lines = group_.broadcast_text(lines, "skipped examples");
  if (!is_rank0()) skipped_.adopt(lines);
  metrics_->skipped(skipped_.summaries());
}

void Trainer::write_run_json(const std::string& start) {
  // Not the time now: run.json is written again after a rollback, and if changes are taken back.
  const std::string started = program_start_utc();
  nlohmann::json& changes = config_changes_ = earlier_.config_changes;
  if (!changes_.none()) {
    std::vector<std::string> harmless;
    for (const ConfigChange& change : changes_.harmless) harmless.push_back(change.text());
    changes.push_back({{"step", first_step_},
                       {"changes", changes_.lines()},
                       {"harmless", harmless},
                       {"evaluators", changes_.changed_evaluators()}});
  }
  const nlohmann::json run = {
      {"argv", options_.argv},
      {"version", options_.tool_version},
      {"commit", options_.commit},
      {"host", host_name()},
      {"pid", getpid()},
      {"started", started},
      {"first_started", earlier_.first_started.empty() ? started : earlier_.first_started},
      {"start", start},
      {"first_step", first_step_},
      {"restarts", std::max<int64_t>(earlier_.count - (options_.before ? 1 : 0), 0)},
      {"compute_threads", recipe_.compute_threads},
      {"precision", recipe_.precision_choice.name()},
      {"precision_config", recipe_.precision_choice.word},
      {"synthetic", options_.synthetic},
      {"config_changes", changes},
      {"rollbacks", earlier_.rollbacks},
      {kMetricOwnersKey, owners_of_shared_prefixes(recipe_.evals)},
      {kSavedKey, !workdir_->ckpt().steps().empty()},
  };
  write_file_atomically(workdir_->run_json(), json_text(run, 2) + "\n");
}

// Returns the report's facts about the origin of the run.
Facts Trainer::facts() const {
  const auto run = nlohmann::json::parse(read_file(workdir_->run_json()));
  Facts facts = run_facts(run);
  const auto config = nlohmann::json::parse(recipe_.config.json());
  std::string device = device_name(recipe_.device);
  if (group_.size() > 1) device += fmt::format(", {} processes", group_.size());
  if (recipe_.device.is_cpu())
    device += fmt::format(", compute_threads: {}", recipe_.compute_threads);
  set_fact(facts, "Device", device);
  set_fact(facts, "Precision", recipe_.precision_choice.text());
  set_fact(facts, "Libraries", "LibTorch " TORCH_VERSION);
  const std::vector<std::string> classes = recipe_.data->class_names();
  std::string data =
      data_text(config.at("input").value("data", nlohmann::json()), recipe_.data->size());
  if (!classes.empty()) data += fmt::format(", {} classes", classes.size());
  if (options_.synthetic) data += ", generated by --synthetic";
  set_fact(facts, "Training data", data);
  std::string evals;
  for (const EvalJob& job : recipe_.evals) {
    const int64_t examples = job.evaluator->examples();
    if (examples == 0) continue;
    const auto& keys = config.at("evals").at(job.name);
    evals += fmt::format("{}{}: {}", evals.empty() ? "" : "\n", job.name,
                         data_text(keys.value("data", nlohmann::json()), examples));
  }
  set_fact(facts, "Evaluation data", evals);
  return facts;
}

}  // namespace bv
