#include "lib/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include "lib/compare/find_runs.h"
#include "lib/report/metric_direction.h"
#include "lib/report/metric_summary.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

std::map<std::string, size_t> metric_counts(const std::vector<RunRecord>& runs) {
  std::map<std::string, size_t> counts;
  for (const RunRecord& run : runs) {
    for (const auto& [name, series] : run.metrics.series) ++counts[name];
  }
  return counts;
}

void require_metric(const std::vector<RunRecord>& runs, const std::string& flag,
                    const std::string& name) {
  const auto counts = metric_counts(runs);
  if (counts.contains(name)) return;
  std::vector<std::string> names;
  for (const auto& [known, count] : counts) names.push_back(known);
  const std::string near = nearest(name, names);
  throw Error(Exit::usage, flag + " " + name,
              names.empty() ? "no run has measured anything yet"
                            : fmt::format("no run has this metric{}; known: {}",
                                          near.empty() ? "" : " (did you mean '" + near + "'?)",
                                          join(names, ", ")));
}

// Returns for each metric how many runs have it, without those that did not measure it at the end.
std::map<std::string, size_t> final_counts(const std::vector<RunRecord>& runs) {
  std::map<std::string, size_t> counts;
  for (const RunRecord& run : runs) {
    for (const auto& [name, series] : run.metrics.series) counts[name] += !run.is_outdated(name);
  }
  std::erase_if(counts, [](const auto& each) { return each.second == 0; });
  return counts;
}

// Returns the direction that the name says. The training loop's own times and sizes may have any
// word in their names ("z/secs/eval/accuracy").
Direction direction_by_name(const std::string& metric) {
  return is_result(metric) ? metric_direction(metric) : Direction::none;
}

std::vector<ComparedMetric> choose_metrics(const std::vector<RunRecord>& runs,
                                           const CompareOptions& options) {
  std::vector<ComparedMetric> metrics;
  Direction given = Direction::none;
  if (options.lower_is_better) given = *options.lower_is_better ? Direction::down : Direction::up;
  const auto either = [](Direction first, Direction second) {
    return first == Direction::none ? second : first;
  };
  if (!options.sort.empty()) require_metric(runs, "--sort", options.sort);
  const std::string main = options.sort.empty() ? main_metric(runs) : options.sort;
  if (!main.empty()) metrics.push_back({main, either(given, direction_by_name(main))});
  for (const std::string& name : options.metrics) {
    require_metric(runs, "--metrics", name);
    const bool known = std::any_of(metrics.begin(), metrics.end(),
                                   [&](const ComparedMetric& one) { return one.name == name; });
    if (!known) metrics.push_back({name, either(direction_by_name(name), given)});
  }
  return metrics;
}

// Orders runs by seed, numerically if seeds are numbers, and then by fold.
bool comes_before(const RunRecord& a, const RunRecord& b) {
  const auto number = [](const RunRecord& run) {
    const auto seed = nlohmann::json::parse(run.seed, nullptr, false);
    return seed.is_number() ? seed.get<double>() : 0.0;
  };
  const auto key = [&](const RunRecord& run) {
    return std::tuple(number(run), std::string_view(run.seed), run.fold.size(),
                      std::string_view(run.fold), std::string_view(run.workdir));
  };
  return key(a) < key(b);
}

// Drops a number of compute threads that all runs share, given or not. If the numbers differ, drops
// only those that were not given. (A run that is started from another run's config.yaml gives the
// number that was the default there.)
void drop_compute_threads(std::vector<RunRecord>& runs) {
  const std::string key = "compute_threads";
  std::set<std::string> numbers;
  for (const RunRecord& run : runs) {
    const auto found = run.config.find(key);
    numbers.insert(found == run.config.end() ? "" : found->second);
  }
  for (RunRecord& run : runs) {
    if (numbers.size() == 1 || run.defaults.contains(key)) run.config.erase(key);
  }
}

std::vector<RunGroup> group_runs(const std::vector<RunRecord>& runs) {
  std::map<FlatConfig, std::vector<size_t>> members;
  for (size_t i = 0; i < runs.size(); ++i) members[runs[i].config].push_back(i);
  std::vector<RunGroup> groups;
  for (auto& [config, indices] : members) {
    std::sort(indices.begin(), indices.end(),
              [&](size_t a, size_t b) { return comes_before(runs[a], runs[b]); });
    groups.push_back({indices, {}, false, 0});
  }
  return groups;
}

// Whether no two groups have the same values of all `keys`.
bool tell_apart(const std::vector<RunRecord>& runs, const std::vector<RunGroup>& groups,
                const std::vector<std::string>& keys) {
  std::set<FlatConfig> all;
  for (const RunGroup& group : groups) {
    FlatConfig values = runs[group.runs[0]].config;
    std::erase_if(values, [&](const auto& each) {
      return std::find(keys.begin(), keys.end(), each.first) == keys.end();
    });
    all.insert(std::move(values));
  }
  return all.size() == groups.size();
}

std::vector<std::string> differing_keys(const std::vector<RunRecord>& runs,
                                        const std::vector<RunGroup>& groups) {
  std::map<std::string, std::set<std::string>> values;  // by key, without absent ones
  std::map<std::string, size_t> counts;
  for (const RunGroup& group : groups) {
    for (const auto& [key, value] : runs[group.runs[0]].config) {
      values[key].insert(value);
      ++counts[key];
    }
  }
  std::set<std::string> given;  // keys that a run does not leave at their default
  for (const RunRecord& run : runs) {
    for (const auto& [key, value] : run.config) {
      if (!run.defaults.contains(key)) given.insert(key);
    }
  }
  std::vector<std::string> keys, chosen, present;
  for (const auto& [key, distinct] : values) {
    const bool absent = counts[key] < groups.size();
    if (distinct.size() < 2 && !absent) continue;
    keys.push_back(key);
    if (given.contains(key)) chosen.push_back(key);
    if (given.contains(key) || !absent) present.push_back(key);
  }
  // Keys that every run leaves at its default are left out if possible: a default that depends on
  // another key tells no more than that key, and the defaults of a model no more than its name.
  if (tell_apart(runs, groups, chosen)) return chosen;
  return tell_apart(runs, groups, present) ? present : keys;
}

void fill_spreads(const Comparison& all, RunGroup& group) {
  for (const size_t run : group.runs) group.finished += all.runs[run].status.finished();
  group.provisional = group.finished == 0;
  for (size_t metric = 0; metric < all.metrics.size(); ++metric) {
    std::vector<double> values;
    for (const size_t run : group.runs) {
      if (!group.provisional && !all.runs[run].status.finished()) continue;
      if (const auto* value = all.value_of(run, metric)) values.push_back(value->second);
    }
    group.spreads.push_back(spread_of(values));
  }
}

// Returns the sort key of groups, the smallest first.
auto sort_key(const Comparison& all, const RunGroup& group) {
  const Spread none;
  const Spread& spread = group.spreads.empty() ? none : group.spreads[0];
  const bool usable = spread.n > 0 && !std::isnan(spread.mean);
  const double value = usable ? spread.mean : 0;
  const bool down = !all.metrics.empty() && all.metrics[0].direction == Direction::down;
  const double sign = down ? 1 : -1;
  return std::tuple(!usable, group.provisional, sign * value,
                    std::string_view(all.runs[group.runs[0]].workdir));
}

void warn_of_repeated_runs(Comparison& all) {
  for (const RunGroup& group : all.groups) {
    std::vector<size_t> in_mean;
    for (const size_t run : group.runs) {
      const bool measured = all.metrics.empty() || all.value_of(run, 0) != nullptr;
      if (measured && (group.provisional || all.runs[run].status.finished()))
        in_mean.push_back(run);
    }
    for (size_t i = 1; i < in_mean.size(); ++i) {
      const RunRecord& a = all.runs[in_mean[i - 1]];
      const RunRecord& b = all.runs[in_mean[i]];
      if (a.seed != b.seed || a.fold != b.fold) continue;
      all.warnings.push_back(fmt::format(
          "{}: warning: has the same config{} and seed as {}; the group's n and standard deviation "
          "count both",
          b.workdir, a.fold.empty() ? "" : ", fold", a.workdir));
    }
  }
}

// A key may have another default in another version, and a metric may be measured differently.
void warn_of_versions(Comparison& all) {
  std::map<std::string, int64_t> counts;
  for (const RunRecord& run : all.runs) {
    if (!run.version.empty()) ++counts[run.version];
  }
  if (counts.size() < 2) return;
  std::vector<std::string> versions;
  for (const auto& [version, count] : counts)
    versions.push_back(fmt::format("{} {}", counted(count, "run"), version));
  all.warnings.push_back(
      fmt::format("the runs are of different versions of bvtrain, which may have "
                  "other defaults or measure differently: {}",
                  short_list(versions)));
}

void warn_of_missing_values(Comparison& all) {
  for (size_t metric = 0; metric < all.metrics.size(); ++metric) {
    const std::string& name = all.metrics[metric].name;
    int64_t lacking = 0, outdated = 0;
    std::string first;  // of the outdated ones
    for (size_t index = 0; index < all.runs.size(); ++index) {
      const RunRecord& run = all.runs[index];
      if (!run.status.finished() || all.value_of(index, metric) != nullptr) continue;
      ++(run.is_outdated(name) ? outdated : lacking);
      if (outdated == 1 && first.empty()) {
        first = fmt::format("{}: step {} of {}", run.workdir,
                            run.metrics.series.at(name).last.first, run.metrics.last_step);
      }
    }
    if (lacking > 0) {
      all.warnings.push_back(
          fmt::format("{}: warning: {} never measured it", name, counted(lacking, "finished run")));
    }
    if (outdated > 0) {
      all.warnings.push_back(fmt::format(
          "{}: warning: {} did not measure it at the end, so earlier values are left out ({})",
          name, counted(outdated, "finished run"), first));
    }
  }
}

void warn_of_unknown_directions(Comparison& all) {
  for (size_t metric = 0; metric < all.metrics.size(); ++metric) {
    if (all.metrics[metric].direction != Direction::none) continue;
    const std::string& name = all.metrics[metric].name;
    const bool sorts = metric == 0, best = all.value == MetricValue::best;
    if (!sorts && !best) continue;
    // --better without --sort would also change the order of the metric that sorts.
    const std::string remedy =
        sorts ? "set it with --better"
              : fmt::format("to show the best, sort by it: --sort {} with --better higher or lower",
                            name);
    all.warnings.push_back(fmt::format(
        "{}: warning: its name does not say whether higher or lower values are better, so "
        "{}{}{}; {}",
        name, sorts ? "the highest come first" : "", sorts && best ? ", and " : "",
        best ? "the last values are shown, not the best" : "", remedy));
  }
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  spread.n = std::ssize(values);
  if (values.empty()) return spread;
  const auto n = static_cast<double>(values.size());
  if (!std::all_of(values.begin(), values.end(),
                   [](double value) { return std::isfinite(value); })) {
    spread.mean = std::accumulate(values.begin(), values.end(), 0.0);
    if (std::isnan(spread.mean)) spread.mean = NAN;  // inf - inf is a NaN with a sign
    if (values.size() > 1) spread.deviation = NAN;
    return spread;
  }
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  double differences = 0, squares = 0;
  for (const double value : sorted) differences += value - sorted[0];
  spread.mean = sorted[0] + differences / n;
  if (values.size() < 2) return spread;
  for (const double value : sorted) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / (n - 1));
  return spread;
}

bool lower_is_better(const std::string& metric) {
  return metric_direction(metric) == Direction::down;
}

std::string main_metric(const std::vector<RunRecord>& runs) {
  const auto counts = final_counts(runs);
  for (const bool training : {false, true}) {
    std::map<size_t, std::vector<std::string>, std::greater<>> by_count;
    for (const auto& [name, count] : counts) {
      if (training || !names_training(name)) by_count[count].push_back(name);
    }
    for (const auto& [count, names] : by_count) {
      const std::string main = choose_main_metric(names);
      if (!main.empty()) return main;
    }
  }
  return counts.contains("training_loss") ? "training_loss" : "";
}

const MetricSeries::StepValue* Comparison::value_of(size_t run, size_t metric) const {
  const auto& series = runs[run].metrics.series;
  const auto found = series.find(metrics[metric].name);
  if (found == series.end()) return nullptr;
  const MetricSeries& all = found->second;
  if (shows_best(metric) && all.has_extremes)
    return metrics[metric].direction == Direction::down ? &all.min : &all.max;
  return runs[run].is_outdated(found->first) ? nullptr : &all.last;
}

bool Comparison::shows_best(size_t metric) const {
  return value == MetricValue::best && metrics[metric].direction != Direction::none;
}

bool Comparison::has_folds() const {
  return std::any_of(runs.begin(), runs.end(),
                     [](const RunRecord& run) { return !run.fold.empty(); });
}

std::string Comparison::config_value(const RunGroup& group, size_t key) const {
  const FlatConfig& config = runs[group.runs[0]].config;
  const auto found = config.find(keys[key]);
  return found == config.end() ? "" : found->second;
}

Comparison compare(std::vector<RunRecord> runs, const CompareOptions& options) {
  Comparison all;
  all.value = options.value;
  all.metrics = choose_metrics(runs, options);
  all.runs = std::move(runs);
  std::vector<std::string> workdirs;
  for (const RunRecord& run : all.runs) workdirs.push_back(run.workdir);
  const std::vector<std::string> names = short_names(workdirs);
  for (size_t i = 0; i < names.size(); ++i) all.runs[i].name = names[i];
  drop_compute_threads(all.runs);
  all.groups = group_runs(all.runs);
  all.keys = differing_keys(all.runs, all.groups);
  for (RunGroup& group : all.groups) fill_spreads(all, group);
  std::stable_sort(all.groups.begin(), all.groups.end(), [&](const RunGroup& a, const RunGroup& b) {
    return sort_key(all, a) < sort_key(all, b);
  });
  warn_of_repeated_runs(all);
  warn_of_versions(all);
  warn_of_missing_values(all);
  warn_of_unknown_directions(all);
  return all;
}

}  // namespace bv
