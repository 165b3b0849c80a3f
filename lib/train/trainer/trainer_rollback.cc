// `nan: rollback`: after a step with a non-finite loss or gradients, the run returns to its last
// checkpoint and skips some training examples.
//
// run.json lists what was skipped where. A checkpoint records how many of these entries apply to
// it, so a killed run that continues from the checkpoint skips the same examples again.
#include "lib/report/log.h"
#include "lib/train/trainer/rollback.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/file.h"
#include "lib/util/json_text.h"
#include "lib/util/text.h"

namespace bv {

int64_t examples_left_out(const nlohmann::json& rollbacks, const Restored& from) {
  int64_t examples = 0;
  for (size_t i = from.meta.value("rollbacks", size_t{0}); i < rollbacks.size(); ++i) {
    const nlohmann::json& each = rollbacks.at(i);
    if (each.at("to") == from.step) examples += each.at("examples").get<int64_t>();
  }
  return examples;
}

// The part of roll_back() on rank 0: returns the entry for run.json, or {"fault": why not}.
nlohmann::json Trainer::choose_rollback(int64_t step) const {
  const std::string& why = recipe_.step->skipped();
  const auto before = static_cast<int64_t>(earlier_.rollbacks.size());
  const int64_t limit = recipe_.nan_limit.value();
  if (before >= limit) {
    return {{"fault", fmt::format("step {}: {}; the run has returned to a checkpoint {} times, as "
                                  "often as nan_limit allows",
                                  step, why, before)}};
  }
  const std::optional<int64_t> to = Checkpointer::latest_step(workdir_->ckpt(), /*resumes=*/true);
  if (!to)
    return {{"fault", fmt::format("step {}: {}; there is no checkpoint to return to", step, why)}};
  const int64_t examples = recipe_.rollback_examples > 0 ? recipe_.rollback_examples
                                                         : (step - *to) * recipe_.length.batch_size;
  log::warn(
      "[{}] {}; the run returns to step {} and skips {} training examples ({} of at most {} times)",
      step, why, *to, human_count(examples), before + 1, limit);
  return {{"step", step}, {"to", *to}, {"examples", examples}, {"reason", why}};
}

void Trainer::roll_back(int64_t step) {
  const Group::Phase phase(group_, "checkpoint");
  log::clear_progress();
  if (checkpointer_) checkpointer_->drain();
  nlohmann::json chosen;
  if (is_rank0()) chosen = choose_rollback(step);
  chosen = nlohmann::json::parse(group_.broadcast_text(json_text(chosen), "rollback"));
  if (chosen.contains("fault"))
    throw Error::in("train", Exit::diverged, chosen.at("fault").get<std::string>());
  if (is_rank0()) {
    nlohmann::json run = nlohmann::json::parse(read_file(workdir_->run_json()));
    run["rollbacks"].push_back(chosen);
    write_file_atomically(workdir_->run_json(), json_text(run, 2) + "\n");
  }
  throw RolledBack();
}

}  // namespace bv
