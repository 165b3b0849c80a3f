#include "lib/train/claim.h"

#include <array>

#include "lib/ckpt/workdir/shared_workdir.h"
#include "lib/device/device_name.h"
#include "lib/distributed/check_agreement.h"
#include "lib/distributed/watch/watch.h"
#include "lib/report/log.h"
#include "lib/train/data_changes.h"
#include "lib/train/start.h"
#include "lib/util/json_text.h"
#include "lib/util/rng.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

constexpr double kLockPatience = 60;  // seconds

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
    if (const auto ended = ended_run(workdir, found.checkpoint, recipe, data)) {
      finished = true;
      trainer.check_changes(ended->compared, finished);
      log::info("The run in {} {}", workdir.dir(), ended->text);
    } else if (!workdir.ckpt().steps().empty()) {
      trainer.check_changes(found.checkpoint, finished);
    }
  }
  if (group.all_max(std::array{int64_t{finished}}, "workdir").at(0) != 0) return true;
  if (recipe.step->sharded()) tell_if_stopped(group, [&] { check_shared(group, workdir); });
  return false;
}

}  // namespace bv
