#include "lib/train/selection.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/config/key_table.h"
#include "lib/report/metric_direction.h"
#include "lib/report/metric_summary.h"
#include "lib/util/file_name.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr KeyText kWatchedKeys[] = {
    {"metric", "string", "required",
     "Name of the metric, as in the log and in metrics.jsonl: `<evaluator>/<metric>`.",
     "val/prec@1"},
    {"higher_is_better", "bool", "= derived from the metric's name",
     "Whether a higher value is better. It may be omitted if the name implies it: higher for "
     "`prec@1`, lower for `loss`.",
     "true"},
};
const KeyTable best_keys(
    "best",
    {"Keeps the checkpoint of the step with the best value of a metric as `ckpt/best`, even when "
     "others are deleted. If two values are equal, the earlier one counts. NaN never counts. "
     "`bvtrain predict --best` and `export --best` use it, and `model_init: WORKDIR:best` starts "
     "from it. Give a list for several metrics.",
     "{metric: val/prec@1}"},
    {{"by", "'train' | 'eval'", "train",
      "What evaluates and keeps the checkpoint: the training itself, or `bvtrain eval`, which must "
      "then run during or after it. With `eval` the evaluator needs no interval.",
      "eval"},
     {"name", "string", "\"\"",
      "Name of this entry, if `best` is a list: its checkpoint is `ckpt/best-<name>`. Up to 64 "
      "letters, digits and _ - . @ +.",
      "loss"}},
    kWatchedKeys);
const KeyTable early_stop_keys(
    "early_stop",
    {"Ends the training when a metric has not improved for a while. The run then counts as "
     "finished. A larger patience, set later, continues it.",
     "{metric: val/loss, patience_epochs: 10}"},
    {{"patience_{steps,examples,epochs,percent}", "float", "required",
      "How long the training continues after the best value. It ends at the first evaluation that "
      "is at least this much later and not better. Give it in one unit.",
      "10"},
     {"min_delta", "float >= 0", "0",
      "An improvement must beat the best value by more than this."}},
    kWatchedKeys);

// Returns the evaluators whose metrics have names like `metric`: those with the longest prefix.
// Leaves out those that do not measure it, unless this leaves none: messages then name them.
std::vector<const EvalJob*> find_jobs(const std::vector<EvalJob>& jobs, const std::string& metric) {
  std::vector<const EvalJob*> found;
  for (const EvalJob& job : jobs) {
    if (!metric.starts_with(job.prefix) || metric.size() == job.prefix.size()) continue;
    if (!found.empty() && job.prefix.size() < found[0]->prefix.size()) continue;
    if (!found.empty() && job.prefix.size() > found[0]->prefix.size()) found.clear();
    found.push_back(&job);
  }
  std::vector<const EvalJob*> able;
  for (const EvalJob* job : found) {
    const auto names = written_metrics(*job);
    if (!names || std::ranges::count(*names, metric.substr(job->prefix.size())) > 0)
      able.push_back(job);
  }
  return able.empty() ? found : able;
}

// Returns all metric names of the evaluators; nullopt if one of them does not know its own.
std::optional<std::vector<std::string>> known_metrics(const std::vector<const EvalJob*>& jobs) {
  std::vector<std::string> names;
  for (const EvalJob* job : jobs) {
    const auto known = written_metrics(*job);
    if (!known) return std::nullopt;
    for (const std::string& name : *known) names.push_back(job->prefix + name);
  }
  return names;
}

// Records a problem if no evaluator in `found`, which are those of `watched`, measures the metric
// during training. `bvtrain eval` also runs evaluators without an interval.
void check_jobs(const Config& config, const std::vector<EvalJob>& jobs,
                const std::vector<const EvalJob*>& found, const WatchedMetric& watched,
                bool by_eval) {
  const std::string& metric = watched.metric;
  const bool due = by_eval || std::any_of(found.begin(), found.end(),
                                          [](const EvalJob* job) { return job->due.has_value(); });
  if (found.empty()) {
    std::string prefixes;
    for (const EvalJob& each : jobs)
      prefixes += fmt::format("{}'{}...'", prefixes.empty() ? "" : ", ", each.prefix);
    config.problem("metric", jobs.empty()
                                 ? fmt::format("no evaluator measures '{}': there are none", metric)
                                 : fmt::format("no evaluator measures '{}'; their metrics are {}",
                                               metric, prefixes));
  } else if (!due) {
    config.problem("metric",
                   fmt::format("the evaluator '{}' does not run during training; give it an "
                               "interval, such as 'log_epochs: 1'{}",
                               found[0]->name,
                               config.path().starts_with("best")
                                   ? ", or 'by: eval' if `bvtrain eval` should keep the best"
                                   : ""));
  } else if (const auto known = known_metrics(found);
             known && std::find(known->begin(), known->end(), metric) == known->end()) {
    config.problem("metric", unknown_metric(watched, *known));
  }
}

WatchedMetric read_watched(const Config& config, const std::vector<EvalJob>& jobs,
                           bool by_eval = false) {
  WatchedMetric watched;
  watched.metric = config.get<std::string>("metric");
  watched.key = config.path() + ".metric";
  watched.place = config.place("metric");
  const std::vector<const EvalJob*> found = find_jobs(jobs, watched.metric);
  for (const EvalJob* job : found) {
    watched.evaluators.insert(job->name);
    watched.prefix = job->prefix;
  }
  const size_t problems = problem_count(config);
  check_jobs(config, jobs, found, watched, by_eval);
  // The words of the user's prefix say nothing about the metric.
  const Direction known = metric_direction(watched.metric.substr(watched.prefix.size()));
  const auto given = config.maybe<bool>("higher_is_better");
  watched.higher_is_better = given.value_or(known == Direction::up);
  if (problem_count(config) != problems) return watched;
  if (!given && known == Direction::none) {
    config.problem("", fmt::format("add 'higher_is_better: true' or 'false': the name '{}' does "
                                   "not imply which values are better",
                                   watched.metric));
  } else if (given && known != Direction::none && *given != (known == Direction::up)) {
    config.warn("higher_is_better", fmt::format("for '{}', {} values are better", watched.metric,
                                                known == Direction::up ? "higher" : "lower"));
  }
  return watched;
}

BestSeries read_series(const Config& config, const std::vector<EvalJob>& jobs, bool in_list,
                       std::set<std::string>& names, bool by_eval) {
  BestSeries series;
  series.name = config.get("name", "");
  if (!series.name.empty() && (!is_file_name(series.name) || series.name.ends_with(".tmp")))
    config.problem("name", fmt::format("'{}' cannot be part of a file name: {}",
                                       printable(series.name), kFileNameRule));
  if (!names.insert(series.name).second) {
    config.problem("name", in_list && series.name.empty()
                               ? "every entry of the list but one needs a unique `name`"
                               : fmt::format("'{}' is the name of two metrics", series.name));
  }
  series.watched = read_watched(config, jobs, by_eval);
  config.done();
  return series;
}

std::vector<Config> best_sections(const Config& config) {
  if (config.is_list("best")) return config.sections("best");
  if (!config.is_map("best")) {
    config.section("best");  // records a problem if it is neither
    return {};
  }
  return {config.section("best")};
}

bool is_by_eval(const Config& series) {
  return series.word("by", "train", {"train", "eval"}) == "eval";
}

EarlyStop read_early_stop(const Config& config, const std::vector<EvalJob>& jobs,
                          const RunLength& length) {
  EarlyStop stop;
  const auto patience = duration_steps(config, "patience", length);
  if (!patience)
    missing_duration(config, "patience",
                     "the patience is missing: give patience_epochs, or another unit");
  stop.patience = patience.value_or(1);
  if (patience && *patience < 1 && !length.no_training)
    config.problem("", "the patience must be positive");
  stop.min_delta = config.get<double>("min_delta", 0.0);
  if (stop.min_delta < 0)
    config.problem("min_delta", fmt::format("must be at least 0, got {}", stop.min_delta));
  stop.watched = read_watched(config, jobs);
  config.done();
  return stop;
}

}  // namespace

bool BestValue::add(int64_t step, double value) {
  last_step_ = step;
  if (first_step_ < 0) first_step_ = step;
  if (!std::isfinite(value)) return false;
  const double gain = !best_                      ? 0
                      : watched_.higher_is_better ? value - best_->value
                                                  : best_->value - value;
  if (best_ && !(gain > min_delta_)) return false;
  best_ = {step, value};
  return true;
}

std::optional<double> evaluated_value(const Row& row, const WatchedMetric& watched) {
  std::optional<double> value;
  bool ran = false;
  for (const auto& [name, number] : row) {
    if (name == watched.metric) value = number;
    for (const std::string& evaluator : watched.evaluators)
      ran = ran || name == kEvalSeconds + evaluator;
  }
  return ran ? value : std::nullopt;
}

std::string unknown_metric(const WatchedMetric& watched, const std::vector<std::string>& measured) {
  const std::string near = nearest(watched.metric, measured);
  return fmt::format("no such metric '{}'{}; {} measures {}", watched.metric,
                     near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                     join({watched.evaluators.begin(), watched.evaluators.end()}, ", "),
                     measured.empty() ? "nothing" : join(measured, ", "));
}

std::string missing_metric(const WatchedMetric& watched, const Row& row) {
  std::vector<std::string> names;
  for (const auto& [name, value] : row) {
    if (name.starts_with(watched.prefix) && is_result(name)) names.push_back(name);
  }
  return fmt::format("{}: {}", watched.key, unknown_metric(watched, names));
}

Selection read_selection(const Config& config, const std::vector<EvalJob>& jobs,
                         const RunLength& length) {
  Selection selection;
  // An evaluator that could not be read is not among the jobs.
  const Config evals = config.section("evals");
  if (lacks_name(evals) || evals.items().size() != jobs.size()) {
    for (const char* key : {"best", "early_stop"}) config.mark_read(key);
    return selection;
  }
  std::set<std::string> names;
  for (const Config& each : best_sections(config)) {
    attempt(each, [&] {
      const bool by_eval = is_by_eval(each);
      auto& all = by_eval ? selection.by_eval : selection.best;
      all.push_back(read_series(each, jobs, config.is_list("best"), names, by_eval));
    });
  }
  const Config stop = config.section("early_stop");
  if (config.is_map("early_stop"))
    attempt(stop, [&] { selection.early_stop = read_early_stop(stop, jobs, length); });
  return selection;
}

std::vector<BestSeries> read_best_by_eval(const Config& config, const std::vector<EvalJob>& jobs) {
  std::vector<BestSeries> all;
  std::set<std::string> names;
  for (const Config& each : best_sections(config)) {
    if (is_by_eval(each))
      all.push_back(read_series(each, jobs, config.is_list("best"), names, /*by_eval=*/true));
  }
  return all;
}

bool has_best_by_eval(const Config& config) {
  const std::vector<Config> all = best_sections(config);
  return std::any_of(all.begin(), all.end(), is_by_eval);
}

}  // namespace bv
