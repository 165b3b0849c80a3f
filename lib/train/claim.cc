#include "lib/train/claim.h"

#include <array>

#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/ckpt/workdir/shared_workdir.h"
#include "lib/compare/run_status.h"
#include "lib/config/load_config.h"
#include "lib/device/device_name.h"
#include "lib/distributed/check_agreement.h"
#include "lib/distributed/watch/watch.h"
#include "lib/report/log.h"
#include "lib/report/run_result.h"
#include "lib/train/data_changes.h"
#include "lib/train/run_changes.h"
#include "lib/train/start.h"
#include "lib/util/file.h"
#include "lib/util/json_text.h"
#include "lib/util/limits.h"
#include "lib/util/rng.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

constexpr double kLockPatience = 60;  // seconds

// Returns whether a run that stopped early may continue because its config has changed. Its last
// launch may have saved nothing, so the config of the checkpoint may be older than that launch.
bool may_go_on(const Workdir& workdir, const std::optional<Restored>& checkpoint,
               const Recipe& recipe, const nlohmann::json& data) {
  if (last_config_hash(workdir) == config_hash(recipe.config.json())) return false;
  return checkpoint && changes_end(changes_since(*checkpoint, recipe, data));
}

// Returns the config of the last start as the metadata of a checkpoint, for a finished run that has
// no checkpoint. nullopt if the config is the same now, or if there is no config.yaml. What the
// data were is not known, so another path to them counts as other data.
std::optional<Restored> last_config(const Workdir& workdir, const Recipe& recipe) {
  if (last_config_hash(workdir) == config_hash(recipe.config.json())) return std::nullopt;
  const auto text = read_file_if_any(workdir.config(), limits::kRunConfigBytes);
  if (!text) return std::nullopt;
  Restored last;
  last.folder = workdir.config();
  last.meta = {{"config", parse_config(*text, workdir.config()).json()}};
  return last;
}

// For a finished run: throws if a ckpt/best is the best by another metric, and warns if there is
// none.
void check_best_of_finished(const Selection& selection, const Workdir& workdir) {
  check_metric_of_best(selection.best, workdir);
  check_metric_of_best(selection.by_eval, workdir);
  for (const BestSeries& series : selection.best) {
    const std::string folder = workdir.ckpt().best(series.name);
    if (file_exists(folder)) continue;
    log::warn(
        "{} does not exist, and a finished run looks for no best checkpoint; to find it, give "
        "`bvtrain eval` a --config whose `best` has `by: eval`",
        folder);
  }
}

// Calls work(), which throws Stopped after a signal. The other ranks wait for this one, so it must
// tell them.
template <class Work>
void tell_if_stopped(const Group& group, const Work& work) {
  try {
    work();
  } catch (const Stopped& stopped) {
    if (group.size() > 1) abort_group(stopped.code, kStoppedBySignal);
    throw;
  }
}

}  // namespace

void check_versions(Group& group, const std::string& version) {
  check_agreement(group, {{"version", version}});
}

void check_ranks(Group& group, const Recipe& recipe, const nlohmann::json& data, bool writes) {
  check_agreement(group, {{"--workdir", writes ? "a folder" : "none"},
                          {"config", fmt::format("{:016x}", hash64(recipe.config.yaml()))},
                          // `auto` may mean something else on another host.
                          {"device", recipe.device.is_cpu() ? "cpu" : "cuda"},
                          {"precision", recipe.precision_choice.name()},
                          // BVTRAIN_BYTE_IMAGES may differ.
                          {"images", recipe.image_normalization ? "bytes" : "float32"}});
  check_same_data(group, data);
  for (const std::string& text : disagreements(group, device_name(recipe.device))) {
    if (group.rank() > 0) continue;
    log::warn(
        "{}: they may round differently, so the ranks' copies of the weights may drift apart by "
        "rounding errors (docs/distributed.md)",
        text);
  }
}

ClassNames agreed_classes(Group& group, const ClassNames& mine) {
  if (group.size() == 1) return mine;
  const nlohmann::json text = {{"names", mine.names}, {"owner", mine.owner}};
  const auto agreed = nlohmann::json::parse(group.broadcast_text(json_text(text), "class names"));
  return {agreed.at("names"), agreed.at("owner")};
}

bool claim_workdir(Workdir& workdir, Trainer& trainer, const FoundRun& found, const Recipe& recipe,
                   const nlohmann::json& data, Group& group, bool restarted) {
  bool finished = false;
  if (group.rank() == 0) {
    check_outside_data(recipe.config, workdir);
    trainer.load_start();
    // Between two generations of ranks, another command may hold the lock for a moment.
    tell_if_stopped(group, [&] { workdir.claim(restarted ? kLockPatience : 0); });
    // The run would then continue another one than the one whose config and classes it has compared
    // with its own. A restart has the same config, and may wait for the ranks before it, which
    // still save.
    if (!restarted && workdir.ckpt().steps() != found.steps) {
      throw Error(Exit::peer, workdir.dir(),
                  "its checkpoints changed while this run started; run the same command again");
    }
    const std::optional<Workdir::Done> done = finished_at(workdir);
    const bool at_end = done && done->step >= recipe.length.total_steps;
    // A run that stopped early continues if the config now asks for that.
    const bool early =
        done && !done->early.empty() && !may_go_on(workdir, found.checkpoint, recipe, data);
    finished = at_end || early;
    if (finished) {
      check_best_of_finished(recipe.selection, workdir);
    } else {
      check_best(recipe.selection, workdir);
      require_checkpoints(workdir);
    }
    if (!workdir.ckpt().steps().empty())
      trainer.check_changes(found.checkpoint, finished);
    else if (finished)
      trainer.check_changes(last_config(workdir, recipe), finished);
    if (finished) {
      log::info("The run in {} finished already, at step {}{}", workdir.dir(), done->step,
                early ? ": it " + done->early : "");
    }
  }
  if (group.all_max(std::array{int64_t{finished}}, "workdir").at(0) != 0) return true;
  if (recipe.step->sharded()) tell_if_stopped(group, [&] { check_shared(group, workdir); });
  return false;
}

}  // namespace bv
