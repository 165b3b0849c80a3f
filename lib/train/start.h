// Checks of the state that a run starts from, before it starts: the workdir's own checkpoint, else
// `resume`, else `model_init`. The start itself is in trainer_start.cc.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/train/recipe.h"

namespace bv {

// Reads the headers of the files that `resume` and `model_init` name, before a model is built.
// Records what is wrong with them as problems of the config. Warns of a best checkpoint whose
// averaged weights were the best.
void peek_start(const Config& config);

// Returns the metadata of the checkpoint that a run with this config would continue from: the
// workdir's own (`workdir` may be null), else that of `resume`. nullopt if there is none.
std::optional<Restored> peek_checkpoint(const Config& config, const Workdir* workdir);
// Returns the names of the classes that the checkpoint's model was trained on; none if there is no
// checkpoint or it does not hold them.
ClassNames classes_of(const std::optional<Restored>& checkpoint);

// One start of a run. A checkpoint lists those that have led to it.
struct RunStart {
  // The first step that this start trains. What earlier starts saved of it and of later ones no
  // longer counts.
  int64_t from = 0;
  int64_t time = 0;  // in milliseconds since 1970; later than that of the start before
};
// Returns the starts that the checkpoint lists, in their order. None in older checkpoints.
std::vector<RunStart> starts_of(const Restored& checkpoint);
// Adds a start that begins now. Drops those whose steps it trains again.
void add_start(std::vector<RunStart>& starts, int64_t from);

// Throws Error(Exit::usage) if ckpt/best of the workdir is one that the run must not replace: it is
// the best by another metric, or the run would start from the beginning.
void check_best(const Selection& selection, const Workdir& workdir);
void check_best(const std::vector<BestSeries>& series, const Workdir& workdir);
// Throws only if it is the best by another metric.
void check_metric_of_best(const std::vector<BestSeries>& series, const Workdir& workdir);

// Copies the state of the checkpoint that a run continues from. Throws Error(Exit::usage) if it
// does not fit the run's config, and says what does.
void load_run_state(TrainStep& step, const Restored& from);
// Throws Error(Exit::usage) if the files of a new run in the workdir would change its data: the
// source image_folder takes every folder for a class.
void check_outside_data(const Config& config, const Workdir& workdir);
// The same for the folder of input.cache. Call it before the cache is opened.
void check_cache_outside_data(const Config& config);

// A run in a workdir, with nothing left to train.
struct EndedRun {
  std::string text;                  // "finished already, at step 20"
  std::optional<Restored> compared;  // holds its config; nullopt if that is the same now
};
// Returns the run in the workdir if a start with this recipe would train nothing. The caller
// compares the configs. `checkpoint` is what peek_checkpoint() has returned, `data` is
// data_summary(recipe). Throws Error(Exit::usage) if the start would replace a run that it cannot
// continue, or its best checkpoint.
std::optional<EndedRun> ended_run(const Workdir& workdir, const std::optional<Restored>& checkpoint,
                                  const Recipe& recipe, const nlohmann::json& data);

// Throws Error(Exit::usage) if the checkpoint is past the last step.
void check_step(const Restored& from, int64_t total_steps);

// Reads what the run would start from and compares it with a recipe on the meta device. `workdir`
// may be null. Writes nothing. Returns what was found, such as "model_init f.npz: all arrays fit",
// or that nothing would be trained. Throws the Error(Exit::usage) that the start would throw.
// `accept_changes` as for ConfigChanges::require().
std::string check_start(const Recipe& shapes, const Workdir* workdir, bool accept_changes);

}  // namespace bv
