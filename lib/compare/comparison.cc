#include "lib/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
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

std::vector<ComparedMetric> choose_metrics(const std::vector<RunRecord>& runs,
                                           const CompareOptions& options) {
  std::vector<ComparedMetric> metrics;
  if (!options.sort.empty()) require_metric(runs, "--sort", options.sort);
  const std::string main = options.sort.empty() ? main_metric(runs) : options.sort;
  if (!main.empty())
    metrics.push_back({main, options.lower_is_better.value_or(lower_is_better(main))});
  for (const std::string& name : options.metrics) {
    require_metric(runs, "--metrics", name);
    const bool known = std::any_of(metrics.begin(), metrics.end(),
                                   [&](const ComparedMetric& one) { return one.name == name; });
    if (!known) metrics.push_back({name, lower_is_better(name)});
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

// Drops the number of compute threads if it is the same in all runs, whether given or the machine's
// default, and otherwise the defaults. A run that is started from another one's config.yaml gives
// the number that was the default there.
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
  std::vector<std::string> keys, telling;
  for (const auto& [key, distinct] : values) {
    const bool absent = counts[key] < groups.size();
    if (distinct.size() < 2 && !absent) continue;
    keys.push_back(key);
    // The defaults of a plug-in say no more than its name does.
    if (!absent || given.contains(key)) telling.push_back(key);
  }
  return tell_apart(runs, groups, telling) ? telling : keys;
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
  const double sign = !all.metrics.empty() && all.metrics[0].lower_is_better ? 1 : -1;
  return std::tuple(!usable, group.provisional, sign * value,
                    std::string_view(all.runs[group.runs[0]].workdir));
}

void warn_of_repeated_runs(Comparison& all) {
  for (const RunGroup& group : all.groups) {
    for (size_t i = 1; i < group.runs.size(); ++i) {
      const RunRecord& a = all.runs[group.runs[i - 1]];
      const RunRecord& b = all.runs[group.runs[i]];
      if (a.seed != b.seed || a.fold != b.fold) continue;
      all.warnings.push_back(fmt::format(
          "{}: warning: has the same config{} and seed as {}; the group's n and standard deviation "
          "count both",
          b.workdir, a.fold.empty() ? "" : ", fold", a.workdir));
    }
  }
}

void warn_of_missing_values(Comparison& all) {
  for (size_t metric = 0; metric < all.metrics.size(); ++metric) {
    int64_t lacking = 0;
    for (size_t run = 0; run < all.runs.size(); ++run)
      lacking += all.runs[run].status.finished() && all.value_of(run, metric) == nullptr;
    if (lacking == 0) continue;
    all.warnings.push_back(fmt::format("{}: warning: {} never measured it",
                                       all.metrics[metric].name, counted(lacking, "finished run")));
  }
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  spread.n = std::ssize(values);
  if (values.empty()) return spread;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / n;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / (n - 1));
  return spread;
}

bool lower_is_better(const std::string& metric) {
  return metric_direction(metric) == Direction::down;
}

std::string main_metric(const std::vector<RunRecord>& runs) {
  std::map<size_t, std::vector<std::string>, std::greater<>> by_count;
  const auto counts = metric_counts(runs);
  for (const auto& [name, count] : counts) by_count[count].push_back(name);
  for (const auto& [count, names] : by_count) {
    const std::string main = choose_main_metric(names);
    if (!main.empty()) return main;
  }
  return counts.contains("training_loss") ? "training_loss" : "";
}

const MetricSeries::StepValue* Comparison::value_of(size_t run, size_t metric) const {
  const auto& series = runs[run].metrics.series;
  const auto found = series.find(metrics[metric].name);
  if (found == series.end()) return nullptr;
  if (value == MetricValue::last || !found->second.has_extremes) return &found->second.last;
  return metrics[metric].lower_is_better ? &found->second.min : &found->second.max;
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
  warn_of_missing_values(all);
  return all;
}

}  // namespace bv
