// The checkpoints of a run: what they contain, and when they cannot be written.
#include <algorithm>
#include <cmath>
#include <random>

#include "lib/ckpt/checkpoint_writer.h"
#include "lib/device/device_name.h"
#include "lib/report/trace.h"
#include "lib/train/trainer/paused_chrono.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/parse_count.h"
#include "lib/util/text.h"

namespace bv {

void Trainer::open_checkpointer() {
  Writers writers;
  if (recipe_.step->sharded()) {
    const std::string id = fmt::format("{:08x}", std::random_device()());
    writers = {group_.rank(), group_.size(), group_.broadcast_text(id, "save id")};
  }
  if (writes_checkpoints())
    checkpointer_ =
        std::make_unique<Checkpointer>(*workdir_, std::move(writers), recipe_.newest_kept);
}

// Throws Error(Exit::storage) unless there is room for one checkpoint: a run that cannot save must
// not start.
void Trainer::require_room() {
  if (!workdir_) return;
  const std::string own = fmt::format("{}", writes_checkpoints() ? recipe_.step->state_bytes() : 0);
  int64_t bytes = 0;
  for (const std::string& of_rank : group_.gather_text(own, "checkpoint size"))
    bytes += parse_count(of_rank).value_or(0);
  if (is_rank0()) bv::require_room(workdir_->dir(), bytes);
}

// Throws Error(Exit::diverged) after a step with a NaN or infinite value. That step's row is never
// written.
void Trainer::check_finite(int64_t step) {
  const std::string bad = recipe_.step->non_finite();
  if (bad.empty()) {
    finite_step_ = step;
    return;
  }
  const std::string& where = recipe_.step->first_non_finite();
  throw Error::in(
      "train", Exit::diverged,
      fmt::format("{} became nan or inf somewhere within steps [{}, {}]{}{}", bad,
                  std::max(finite_step_, first_step_), step, where.empty() ? "" : ", ", where));
}

// Returns what a checkpoint of this step contains besides tensors.
nlohmann::json Trainer::checkpoint_meta(int64_t step) const {
  nlohmann::json row = nlohmann::json::array();
  for (const auto& [name, value] : metrics_->row()) {
    // JSON has no NaN or infinity.
    if (std::isfinite(value))
      row.push_back({name, value});
    else
      row.push_back({name, fmt::format("{}", value)});
  }
  nlohmann::json starts = nlohmann::json::array();
  for (const RunStart& each : starts_) starts.push_back({each.from, each.time});
  nlohmann::json meta = {
      {"tool_version", options_.tool_version},
      {"commit", options_.commit},
      {"config", recipe_.config.json()},
      {"compute_threads", recipe_.compute_threads},
      // The resolved `auto`: predict computes in the same precision on other machines.
      {"precision", recipe_.precision_choice.name()},
      {"ranks", group_.size()},
      {"device", device_name(recipe_.device)},
      {"position", position_after(step)},
      {"examples_left_out", left_out_},
      {"data", options_.data_summary},
      {"synthetic", options_.synthetic},
      {"class_names", recipe_.data->class_names()},
      {"image", {recipe_.env().height, recipe_.env().width, recipe_.env().channels}},
      {"skipped_steps", skipped_steps_},
      {"rollbacks", earlier_.rollbacks.size()},
      {"config_changes", config_changes_.size()},
      {"starts", starts},
      {"row", row},
      {"due_evals", due_evals_},
      {"chrono", chrono_.state()},
  };
  // The row of this step has not ended, unless a signal ends the run after it.
  if (metrics_->last_row() >= 0) meta["last_row"] = metrics_->last_row();
  if (const auto& values = recipe_.image_values)
    meta["image_values"] = {values->least, values->greatest};
  return meta;
}

void Trainer::save(int64_t step, Save kind) {
  // All ranks must check these at the same steps, even those that save nothing.
  if (group_.size() > 1) {
    check_finite(step);
    check_same_state(step);
  }
  if (kind == Save::may_be_left_out && checkpointer_ && checkpointer_->leave_out(step)) return;
  if (group_.size() == 1) check_finite(step);  // a state with NaN or infinity is never committed
  saved_step_ = step;
  if (kind == Save::keep) kept_step_ = step;
  if (!writes_checkpoints()) return;
  chrono_.advance(step);
  const PausedChrono paused(chrono_);
  const Group::Phase phase(group_, "checkpoint");
  skipped_.sync();
  const trace::Span span("checkpoint snapshot");
  Snapshot snapshot;
  snapshot.step = step;
  HostCopies& copies = copies_.at(static_cast<size_t>(checkpointer_->free_buffer()));
  snapshot.tensors = recipe_.step->state(&snapshot.pieced, &copies);
  snapshot.await_values = [&copies] { copies.await(); };
  snapshot.before_commit = metrics_->row_barrier();
  snapshot.meta = checkpoint_meta(step);
  checkpointer_->save(std::move(snapshot), kind == Save::keep);
}

}  // namespace bv
