#include "lib/train/start.h"

#include <algorithm>
#include <chrono>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/ckpt/weights_file.h"
#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/compare/run_status.h"
#include "lib/config/load_config.h"
#include "lib/input/check/data_sections.h"
#include "lib/report/log.h"
#include "lib/report/run_result.h"
#include "lib/train/data_changes.h"
#include "lib/train/run_changes.h"
#include "lib/train/weights/weights.h"
#include "lib/util/file.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

// Compares a checkpoint with the state that the recipe's step would have. Returns the result.
std::string check_checkpoint(const Recipe& shapes, const Restored& from) {
  StepConfig options = read_step(shapes.config, *shapes.model, shapes.length);
  TrainStep step(*shapes.model, *shapes.task, std::move(options), shapes.seed, shapes.precision);
  load_run_state(step, from);
  check_step(from, shapes.length.total_steps);
  return fmt::format("{}: the checkpoint of step {} fits", from.folder, from.step);
}

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

// Warns if model_init names a best checkpoint that was chosen by a metric of its averaged weights:
// it loads the others.
void warn_of_best_average(const Config& config, const std::string& path) {
  if (!is_checkpoint(path)) return;
  const auto found = Checkpointer::peek(path);
  const auto best = read_best(checkpoint_path(path));
  if (!found || !best) return;
  try {
    const Config run = parse_config_json(found->meta.value("config", std::string("{}")), path);
    size_t longest = 0;
    bool averaged = false;  // the evaluator with the longest prefix of the metric has ema: true
    for (const auto& [name, keys] : run.section("evals").items()) {
      const std::string prefix = metric_prefix(run.section("evals"), name);
      if (!best->metric.starts_with(prefix) || prefix.size() < longest) continue;
      averaged = keys.get<bool>("ema", false) || (averaged && prefix.size() == longest);
      longest = prefix.size();
    }
    if (!averaged) return;
    config.warn("model_init", fmt::format("{} was chosen by {} of its averaged weights, but this "
                                          "loads the unaveraged ones; {}:ema loads the averaged "
                                          "ones",
                                          path, best->metric, path));
  } catch (const Error&) {
    return;  // the weights can be loaded even if the config beside them cannot be read
  }
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

}  // namespace

void load_run_state(TrainStep& step, const Restored& from) {
  try {
    step.load_state(from.tensors, from.folder, from.pieced);
  } catch (const Error& error) {
    if (error.code() != Exit::usage) throw;
    throw Error(error.code(), error.where(),
                fmt::format("{}; a run with this config can only start from the weights: "
                            "'model_init: {}' in a new workdir",
                            error.message(), from.folder));
  }
}

void peek_start(const Config& config) {
  for (const std::string_view key : {"resume", "model_init"}) {
    attempt(config, [&] {
      const auto path = config.get(key, "");
      if (path.empty()) return;
      peek_weights(path);
      if (key == "model_init") warn_of_best_average(config, path);
    });
  }
}

void check_step(const Restored& from, int64_t total_steps) {
  if (from.step <= total_steps) return;
  throw Error(Exit::usage, from.folder,
              fmt::format("this checkpoint is at step {}, after the {} steps of this run",
                          from.step, total_steps));
}

std::vector<RunStart> starts_of(const Restored& checkpoint) {
  constexpr int64_t kLatest = int64_t{1} << 53;
  const auto number = [](const nlohmann::json& value) {
    return value.is_number_integer() ? value.get<int64_t>() : -1;
  };
  std::vector<RunStart> starts;
  for (const nlohmann::json& each : checkpoint.meta.value("starts", nlohmann::json::array())) {
    if (!each.is_array() || each.size() != 2) continue;
    const RunStart start = {number(each[0]), number(each[1])};
    if (start.from >= 0 && start.time >= 0 && start.time < kLatest) starts.push_back(start);
  }
  return starts;
}

void add_start(std::vector<RunStart>& starts, int64_t from) {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  // The host of the start before may have had a later clock.
  const int64_t least = starts.empty() ? 0 : starts.back().time + 1;
  std::erase_if(starts, [&](const RunStart& each) { return each.from >= from; });
  const int64_t time = std::chrono::duration_cast<milliseconds>(now).count();
  starts.push_back({from, std::max(time, least)});
}

void check_best(const Selection& selection, const Workdir& workdir) {
  check_best(selection.best, workdir);
  check_best(selection.by_eval, workdir);
}

void check_metric_of_best(const std::vector<BestSeries>& all, const Workdir& workdir) {
  for (const BestSeries& series : all) {
    const WatchedMetric& watched = series.watched;
    const std::string folder = workdir.ckpt().best(series.name);
    const auto found = read_best(folder);
    if (found &&
        (found->metric != watched.metric || found->higher_is_better != watched.higher_is_better)) {
      const auto text = [](const auto& each) {
        return fmt::format("{} {}", each.higher_is_better ? "highest" : "lowest", each.metric);
      };
      throw Error(Exit::usage, watched.place,
                  fmt::format("{}: {} is the checkpoint with the {}; give the {} a unique `name`, "
                              "or move the folder away",
                              watched.key, folder, text(*found), text(watched)));
    }
  }
}

void check_best(const std::vector<BestSeries>& all, const Workdir& workdir) {
  check_metric_of_best(all, workdir);
  const CkptFolder ckpt = workdir.ckpt();
  for (const BestSeries& series : all) {
    const std::string folder = ckpt.best(series.name);
    if (file_exists(folder) && ckpt.steps().empty()) {
      throw Error(Exit::usage, folder,
                  fmt::format("is the best checkpoint of a run, but no other is left, so the run "
                              "would start from the beginning and replace it; continue from it in "
                              "another workdir with 'resume: {}:best', or move it away",
                              workdir.dir()));
    }
  }
}

void check_outside_data(const Config& config, const Workdir& workdir) {
  if (workdir.ckpt().steps().empty())
    check_outside_data(config, workdir.dir(), workdir.dir(), "a --workdir");
}

void check_cache_outside_data(const Config& config) {
  if (!config.is_map("input") || !config.section("input").is_map("cache")) return;
  const Config cache = config.section("input").section("cache");
  const auto folder = cache.get<std::string>("in", "memory");
  if (folder != "memory")
    check_outside_data(config, folder, cache.place("in").text(), "a folder", "input.cache.in: ");
}

std::optional<EndedRun> ended_run(const Workdir& workdir, const std::optional<Restored>& checkpoint,
                                  const Recipe& recipe, const nlohmann::json& data) {
  const bool saved = !workdir.ckpt().steps().empty();
  const std::optional<Workdir::Done> done = finished_at(workdir);
  const bool at_end = done && done->step >= recipe.length.total_steps;
  // A run that stopped early continues if the config now asks for that.
  const bool early = done && !done->early.empty() && !may_go_on(workdir, checkpoint, recipe, data);
  if (at_end || early) {
    check_best_of_finished(recipe.selection, workdir);
    return EndedRun{fmt::format("finished already, at step {}{}", done->step,
                                early ? ": it " + done->early : ""),
                    saved ? checkpoint : last_config(workdir, recipe)};
  }
  check_best(recipe.selection, workdir);
  require_checkpoints(workdir);
  if (done && done->step > 0 && !saved) {
    throw Error(Exit::usage, workdir.dir(),
                fmt::format("the run there finished at step {} and has kept no checkpoint, so it "
                            "cannot be continued; choose another --workdir, or remove "
                            "metrics.jsonl to start the run from the beginning",
                            done->step));
  }
  return std::nullopt;
}

std::optional<Restored> peek_checkpoint(const Config& config, const Workdir* workdir) {
  if (workdir != nullptr && !workdir->ckpt().steps().empty())
    return Checkpointer::peek(workdir->dir(), /*resumes=*/true);
  const auto path = config.get("resume", "");
  return !path.empty() && is_checkpoint(path) ? Checkpointer::peek(path, /*resumes=*/true)
                                              : std::nullopt;
}

ClassNames classes_of(const std::optional<Restored>& checkpoint) {
  if (!checkpoint || !checkpoint->meta.contains("class_names")) return {};
  return {checkpoint->meta.at("class_names").get<std::vector<std::string>>(),
          fmt::format("the checkpoint {}", checkpoint->folder)};
}

std::string check_start(const Recipe& shapes, const Workdir* workdir, bool accept_changes) {
  check_cache_outside_data(shapes.config);
  if (workdir) {
    check_outside_data(shapes.config, *workdir);
    const nlohmann::json data = data_summary(shapes);
    const auto check_changes = [&](const Restored& from, bool finished) {
      const ConfigChanges changes = changes_since(from, shapes, data);
      changes.report();
      changes.require(accept_changes, *workdir, finished);
    };
    const auto own = peek_checkpoint(shapes.config, workdir);
    if (const auto ended = ended_run(*workdir, own, shapes, data)) {
      if (ended->compared) check_changes(*ended->compared, /*finished=*/true);
      return "nothing to train: the run " + ended->text;
    }
    if (const auto found = Checkpointer::latest(*workdir, {.resumes = true})) {
      check_changes(*found, /*finished=*/false);
      return check_checkpoint(shapes, *found);
    }
  }
  const StartFrom& from = shapes.start;
  if (!from.resume.empty()) {
    if (is_checkpoint(from.resume))
      return "resume " +
             check_checkpoint(shapes, Checkpointer::load(from.resume, {.resumes = true}));
    require_finite(plan_weights(from.resume, *shapes.model, {}), from.resume);
    return fmt::format("resume {}: all arrays fit (parameters only)", from.resume);
  }
  if (from.model_init.empty()) return "from scratch";
  require_finite(plan_weights(from.model_init, *shapes.model, from.dont_load.patterns,
                              from.dont_load.place.text()),
                 from.model_init);
  return fmt::format("model_init {}: all arrays fit{}", from.model_init,
                     from.dont_load.patterns.empty() ? "" : ", except those of dont_load");
}

}  // namespace bv
