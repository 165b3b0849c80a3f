// The start of a run: from the workdir's own checkpoint, from another run (`resume`), from a
// weights file (`model_init`) or from scratch. Rank 0 reads the state and broadcasts it to the
// other ranks. If the state is sharded and comes from a checkpoint, every rank reads the checkpoint
// itself: the tensors that it holds as a whole, and its own slices of the others.
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <unistd.h>

#include <ctime>

#include "lib/ckpt/crash_point.h"
#include "lib/ckpt/weights_file.h"
#include "lib/report/log.h"
#include "lib/report/params_table.h"
#include "lib/train/start.h"
#include "lib/train/trainer.h"
#include "lib/train/weights.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "lib/util/text.h"

namespace bv {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

void Trainer::restore() {
  if (workdir_) {
    if (auto found = Checkpointer::latest(*workdir_, ShardedAs::pieces)) {
      load_checkpoint(*found, "workdir");
      resumed_here_ = true;
      saved_step_ = first_step_;
      return;
    }
  }
  load_start();
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
    load_checkpoint(Checkpointer::load(from.resume, ShardedAs::pieces), "resume");
  } else if (!from.resume.empty()) {
    copy_weights(plan_weights(from.resume, *recipe_.model, {}));
    log::warn(
        "resume: {} holds parameters only; the optimizer's state, the step and the clock start "
        "from zero",
        from.resume);
    start_ = "resume";
  } else if (!from.model_init.empty()) {
    copy_weights(plan_weights(from.model_init, *recipe_.model, from.dont_load.patterns,
                              from.dont_load.place.text()));
    start_ = "model_init";
  } else {
    start_ = "scratch";
  }
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
  for (const std::string& name : split(group_.gather_text(mine, "names of weights").at(0), '\n'))
    names.insert(name);
  recipe_.step->set_sharded_parameters(
      names, [&](const std::string& name) { return sharded_weights_.at(name); });
  sharded_weights_.clear();
}

// Gives the other ranks what rank 0 has read.
void Trainer::broadcast_start() {
  if (group_.size() == 1) return;
  nlohmann::json evals;  // null: the checkpoint does not name them
  if (interrupted_evals_) evals = *interrupted_evals_;
  const nlohmann::json mine = {{"first_step", first_step_},
                               {"resumed_here", resumed_here_},
                               {"saved_step", saved_step_},
                               {"start", start_},
                               {"folder", start_folder_},
                               {"interrupted_evals", evals},
                               {"now", chrono_.now()},
                               {"threads", recipe_.compute_threads},
                               {"train_time", chrono_state_.accum_train_time},
                               {"program_time", chrono_state_.accum_program_time},
                               {"pause_time", chrono_state_.accum_pause_time},
                               {"device_time", chrono_state_.accum_device_time},
                               {"examples_seen", chrono_state_.accum_examples_seen}};
  const auto shared = nlohmann::json::parse(group_.gather_text(mine.dump(), "start").at(0));
  first_step_ = step_ = shared.at("first_step");
  resumed_here_ = shared.at("resumed_here");
  saved_step_ = shared.at("saved_step");
  start_ = shared.at("start");
  start_folder_ = shared.at("folder");
  interrupted_evals_.reset();
  if (!shared.at("interrupted_evals").is_null())
    interrupted_evals_ = shared.at("interrupted_evals").get<std::set<std::string>>();
  agreed_clock_ = shared.at("now");
  chrono_state_.accum_train_time = shared.at("train_time");
  chrono_state_.accum_program_time = shared.at("program_time");
  chrono_state_.accum_pause_time = shared.at("pause_time");
  chrono_state_.accum_device_time = shared.at("device_time");
  chrono_state_.accum_examples_seen = shared.at("examples_seen");
  recipe_.compute_threads = shared.at("threads");
  at::set_num_threads(recipe_.compute_threads);
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
    const Restored from = Checkpointer::reopen(start_folder_);
    step.load_state(from.tensors, from.folder, from.pieced);
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
  if (is_rank0()) log::info("{}", params_table(rows));
}

void Trainer::load_checkpoint(const Restored& from, const std::string& why) {
  log::note("Resuming training from checkpoint {}...", from.folder);
  recipe_.step->load_state(from.tensors, from.folder, from.pieced);
  start_folder_ = from.folder;
  first_step_ = step_ = from.step;
  start_ = why;
  check_step(from, total_steps_);
  const auto& chrono = from.meta.at("chrono");
  chrono_state_.accum_program_time = chrono.at("accum_program_time");
  chrono_state_.accum_train_time = chrono.at("accum_train_time");
  chrono_state_.accum_pause_time = chrono.at("accum_pause_time");
  chrono_state_.accum_examples_seen = chrono.at("accum_examples_seen");
  // Older checkpoints do not hold the number of ranks. It is then taken to be today's.
  const int ranks = from.meta.value("ranks", group_.size());
  chrono_state_.accum_device_time =
      chrono.value("accum_device_time", chrono_state_.accum_train_time * ranks);
  for (const auto& entry : from.meta.at("row")) {
    const auto& value = entry.at(1);  // NaN and infinity are strings
    interrupted_row_.emplace_back(
        entry.at(0), value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>());
  }
  if (from.meta.contains("due_evals"))  // not in older checkpoints
    interrupted_evals_ = from.meta.at("due_evals").get<std::set<std::string>>();
  adopt_threads(from.meta.at("compute_threads"), ranks);
}

// Computes with as many threads as the checkpoint's run did, so that the next steps are bitwise the
// same as without the restart. The key compute_threads takes precedence. With another number of
// ranks, each rank has another share of the cores, and the number is left alone.
void Trainer::adopt_threads(int threads, int ranks) {
  if (threads == recipe_.compute_threads || ranks != group_.size()) return;
  if (recipe_.config.has("compute_threads")) {
    log::info("Computing with {} threads, as the config says; this run was started with {}",
              recipe_.compute_threads, threads);
    return;
  }
  log::info("Computing with {} threads, not {}, so that the run continues bitwise exactly", threads,
            recipe_.compute_threads);
  recipe_.compute_threads = threads;
  at::set_num_threads(threads);
}

void Trainer::write_run_json(const std::string& start) const {
  int64_t restarts = 0;
  if (file_exists(workdir_->run_json())) {
    const auto old = nlohmann::json::parse(read_file(workdir_->run_json()), nullptr, false);
    if (old.is_object() && resumed_here_) restarts = old.value("restarts", int64_t{0}) + 1;
  }
  const nlohmann::json run = {
      {"argv", options_.argv},
      {"version", options_.tool_version},
      {"commit", options_.commit},
      {"host", host_name()},
      {"pid", getpid()},
      {"started", utc_now()},
      {"start", start},
      {"first_step", first_step_},
      {"restarts", restarts},
      {"compute_threads", recipe_.compute_threads},
  };
  write_file_atomically(workdir_->run_json(), run.dump(2) + "\n");
}

}  // namespace bv
