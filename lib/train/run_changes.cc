#include "lib/train/run_changes.h"

#include <algorithm>

#include "lib/config/load_config.h"
#include "lib/report/log.h"
#include "lib/tasks/task.h"
#include "lib/train/data_changes.h"
#include "lib/train/keys.h"
#include "lib/util/pattern.h"
#include "lib/util/text.h"

namespace bv {
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

// Whether the change is about the weights that a run starts from.
bool changes_start(const ConfigChange& change) {
  const std::string& key = change.path.front();
  return key == "resume" || key == "model_init" || key == "model_load";
}

// Returns the evaluators that measure with the loss or the `multilabel` of the run, if one of the
// changes is about it.
std::set<std::string> evaluators_of_loss(const std::vector<ConfigChange>& changes,
                                         const std::vector<EvalJob>& jobs) {
  const auto changed = [&](const char* key) {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const ConfigChange& change) { return change.key() == key; });
  };
  const bool other_loss = changed("loss") || changed("task");
  // Other keys of task_kw, such as class_weights, affect the training but not `pred: loss`.
  const bool other_delta = changed("task_kw.delta");
  const bool other_multilabel = changed("task_kw.multilabel");
  std::set<std::string> names;
  for (const EvalJob& job : jobs) {
    const bool averages_it = job.evaluator->output() == kLossOutput;
    if ((other_loss && job.evaluator->follows_loss()) || (other_delta && averages_it) ||
        (other_multilabel && job.evaluator->follows_multilabel()))
      names.insert(job.name);
  }
  return names;
}

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
  if (!named && !recipe.precision_choice.of_model && precision != recipe.precision_choice.name())
    all.push_back({{"precision"}, precision, recipe.precision_choice.name()});
  all.insert(all.end(), other_data.begin(), other_data.end());
  const auto keeps_precision = [&](const ConfigChange& change) {
    return change.key() == "precision" && checkpoint.meta.contains("precision") &&
           precision == recipe.precision_choice.name();
  };
  // A run with total_steps: 0 measures the weights that it starts from.
  const bool trains = !recipe.length.no_training;
  for (ConfigChange& change : all) {
    const bool accepted = (leaves_training(change) && (trains || !changes_start(change))) ||
                          whole.contains(evaluator_of(change)) || keeps_precision(change) ||
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

void ConfigChanges::require(bool accept, const Workdir& workdir, bool finished) const {
  if (accept) return warn_of_examples(*this);
  if (changing.empty()) return;
  std::vector<std::string> keys;
  for (const ConfigChange& change : changing) {
    keys.push_back(change.key() + (changes_examples(change) ? " (other examples)" : ""));
  }
  const std::string names = short_list(keys);
  const bool saved = !workdir.ckpt().steps().empty();
  throw Error(
      Exit::usage, workdir.dir(),
      finished
          ? fmt::format("the run there finished with another {}, so nothing is trained; "
                        "choose another --workdir{}",
                        names,
                        saved ? ", or raise the length of the run and add --accept-changes" : "")
          : fmt::format("the run there was started with another {}; add --accept-changes "
                        "to continue it with the new values, or choose another --workdir",
                        names));
}

}  // namespace bv
