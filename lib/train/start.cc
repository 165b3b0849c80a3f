#include "lib/train/start.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/ckpt/weights_file.h"
#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/config/load_config.h"
#include "lib/input/check/data_sections.h"
#include "lib/report/log.h"
#include "lib/tasks/task.h"
#include "lib/train/data_changes.h"
#include "lib/train/keys.h"
#include "lib/train/weights/weights.h"
#include "lib/util/file.h"
#include "lib/util/pattern.h"
#include "lib/util/text.h"

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
  for (const char* key : {"resume", "model_init"}) {
    attempt(config, [&] {
      if (const auto path = config.get(key, ""); !path.empty()) peek_weights(path);
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

void check_best(const std::vector<BestSeries>& all, const Workdir& workdir) {
  const CkptFolder ckpt = workdir.ckpt();
  for (const BestSeries& series : all) {
    const WatchedMetric& watched = series.watched;
    const std::string folder = ckpt.best(series.name);
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

namespace {

// Returns the evaluator to which the key belongs, "" if it belongs to none.
std::string evaluator_of(const ConfigChange& change) {
  return change.path.size() > 1 && change.path[0] == "evals" ? change.path[1] : "";
}

// Whether the change does not affect training.
bool leaves_training(ConfigChange change) {
  // The name does not matter, and is_harmless() accepts none with a dot: so use x.
  if (!evaluator_of(change).empty()) change.path[1] = "x";
  return is_harmless(change.key());
}

// Returns the evaluators that measure with the loss of the run, if one of the changes is about it.
std::set<std::string> evaluators_of_loss(const std::vector<ConfigChange>& changes,
                                         const std::vector<EvalJob>& jobs) {
  const auto changed = [&](const char* key) {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const ConfigChange& change) { return change.key() == key; });
  };
  const bool other_loss = changed("loss") || changed("task");
  // Other keys of task_kw, such as class_weights, affect the training but not `pred: loss`.
  const bool other_delta = changed("task_kw.delta");
  std::set<std::string> names;
  for (const EvalJob& job : jobs) {
    const bool averages_it = job.evaluator->output() == kLossOutput;
    if ((other_loss && job.evaluator->follows_loss()) || (other_delta && averages_it))
      names.insert(job.name);
  }
  return names;
}

}  // namespace

ConfigChanges changes_since(const Restored& checkpoint, const Recipe& recipe,
                            const nlohmann::json& data) {
  ConfigChanges changes;
  const auto text = checkpoint.meta.value("config", std::string("{}"));
  const Config before = parse_config_json(text, checkpoint.folder);
  if (before.keys().empty()) return changes;  // a checkpoint of another program
  std::vector<ConfigChange> other_data;
  const bool knows_data = checkpoint.meta.contains("data");  // not in older checkpoints
  if (knows_data) other_data = data_changes(checkpoint.meta.at("data"), data);
  const bool same_data = knows_data && other_data.empty();
  const Pattern data_paths{std::string(kDataPaths)};
  // Adding or removing a whole evaluator does not affect training either.
  std::set<std::string> whole;
  for (const bool added : {true, false}) {
    const Config& with = added ? recipe.config : before;
    const Config without = (added ? before : recipe.config).section("evals");
    for (const std::string& name : with.section("evals").keys()) {
      if (without.has(name)) continue;
      whole.insert(name);
      if (added && with.section("evals").has(name)) changes.added.insert(name);
    }
  }
  std::vector<ConfigChange> all = config_changes(before, recipe.config);
  const auto precision = checkpoint.meta.value("precision", recipe.precision_choice.name());
  const bool named = std::any_of(all.begin(), all.end(), [](const ConfigChange& change) {
    return change.key() == "precision";
  });
  // `auto` may resolve to another precision on this machine.
  if (!named && precision != recipe.precision_choice.name())
    all.push_back({{"precision"}, precision, recipe.precision_choice.name()});
  all.insert(all.end(), other_data.begin(), other_data.end());
  for (ConfigChange& change : all) {
    const bool accepted = leaves_training(change) || whole.contains(evaluator_of(change)) ||
                          (same_data && data_paths.matches(change.key()));
    (accepted ? changes.harmless : changes.changing).push_back(std::move(change));
  }
  changes.follow_loss = evaluators_of_loss(changes.changing, recipe.evals);
  return changes;
}

bool changes_end(const ConfigChanges& changes) {
  for (const auto* list : {&changes.harmless, &changes.changing}) {
    for (const ConfigChange& change : *list) {
      const std::string key = change.key();
      if (key.starts_with("early_stop") || key.starts_with("total_")) return true;
    }
  }
  return false;
}

std::vector<std::string> ConfigChanges::lines() const {
  std::vector<std::string> all;
  for (const auto* list : {&harmless, &changing}) {
    for (const ConfigChange& change : *list) all.push_back(change.text());
  }
  return all;
}

std::vector<std::string> ConfigChanges::changed_evaluators() const {
  std::set<std::string> names = added;
  names.insert(follow_loss.begin(), follow_loss.end());
  for (const ConfigChange& change : changing) {
    const std::string name = evaluator_of(change);
    if (!name.empty()) names.insert(name);
  }
  return {names.begin(), names.end()};
}

void ConfigChanges::report() const {
  for (const std::string& line : lines()) log::info("changed config: {}", line);
}

namespace {

// Warns of each data set that has other examples although its keys in the config are the same.
void warn_of_examples(const ConfigChanges& changes) {
  for (const ConfigChange& change : changes.changing) {
    const auto chosen = [&](const ConfigChange& other) { return chooses_examples(other, change); };
    const bool named = std::any_of(changes.changing.begin(), changes.changing.end(), chosen) ||
                       std::any_of(changes.harmless.begin(), changes.harmless.end(), chosen);
    if (changes_examples(change) && !named) log::warn("{}", other_examples_text(change));
  }
}

}  // namespace

void ConfigChanges::require(bool accept, const std::string& workdir, bool finished) const {
  if (accept) return warn_of_examples(*this);
  if (changing.empty()) return;
  std::vector<std::string> keys;
  for (const ConfigChange& change : changing) {
    keys.push_back(change.key() + (changes_examples(change) ? " (other examples)" : ""));
  }
  const std::string names = short_list(keys);
  throw Error(Exit::usage, workdir,
              finished
                  ? fmt::format("the run there finished with another {}, so nothing is trained; "
                                "choose another --workdir, or raise the length of the run and "
                                "add --accept-changes",
                                names)
                  : fmt::format("the run there was started with another {}; add --accept-changes "
                                "to continue it with the new values, or choose another --workdir",
                                names));
}

std::string check_start(const Recipe& shapes, const Workdir* workdir, bool accept_changes) {
  if (workdir) {
    check_outside_data(shapes.config, *workdir);
    check_best(shapes.selection, *workdir);
    if (const auto found = Checkpointer::latest(*workdir, {.resumes = true})) {
      const ConfigChanges changes = changes_since(*found, shapes, data_summary(shapes));
      changes.report();
      changes.require(accept_changes, workdir->dir(), /*finished=*/false);
      return check_checkpoint(shapes, *found);
    }
    if (!finished_at(*workdir)) require_checkpoints(*workdir);
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
