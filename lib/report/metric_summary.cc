#include "lib/report/metric_summary.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <tuple>
#include <utility>

#include "lib/report/metric_direction.h"
#include "lib/report/page/report_charts.h"

namespace bv {
namespace {

constexpr std::string_view kTrainingLoss = "training_loss";

// The direction of a metric that may have a best value. The names of the training loop's own times
// and sizes may contain any word ("z/secs/eval/accuracy").
Direction direction_of(std::string_view name) {
  return is_result(name) ? metric_direction(name) : Direction::none;
}

// Returns the place of an evaluator among others by the words of its name: 0 for validation data, 1
// for test data, otherwise 2. Digits end a word: "val2" is validation data, "eval" is not.
int data_rank(std::string_view evaluator) {
  int rank = 2;
  const auto take = [&](const std::string& word) {
    if (word == "val" || word == "valid" || word == "validation" || word == "minival") rank = 0;
    if (word == "test") rank = std::min(rank, 1);
  };
  std::string word;
  for (const char c : evaluator) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalpha(letter) != 0)
      word += static_cast<char>(std::tolower(letter));
    else
      take(std::exchange(word, ""));
  }
  take(word);
  return rank;
}

}  // namespace

int64_t last_step_before_change(const MeasuredAnew& changed, std::string_view metric) {
  int64_t step = -1;
  if (is_trainers_own(metric)) return step;  // the prefix of an evaluator may be ""
  // A longer prefix of the same metric comes later in the map.
  for (const auto& [prefix, last] : changed) {
    if (metric.starts_with(prefix)) step = last;
  }
  return step;
}

void MetricSummary::add(int64_t step, const Row& row) {
  for (const auto& [name, value] : row) {
    Entry& entry = entries_[name];
    entry.last = {step, value};
    const Direction side = direction_of(name);
    if (side == Direction::none || std::isnan(value)) continue;
    if (!entry.best || is_better(value, entry.best->value, side == Direction::up))
      entry.best = {step, value};
  }
}

void MetricSummary::add(const History& history) {
  for (const auto& [name, points] : history.series) {
    if (points.empty()) continue;
    Entry& entry = entries_[name];
    entry.last = {points.back().first, points.back().second};
    const Direction side = direction_of(name);
    const History::Summary& summary = history.summaries.at(name);
    if (side == Direction::none || !summary.has_extremes) continue;
    const auto& [step, value] = side == Direction::up ? summary.max : summary.min;
    entry.best = {step, value};
  }
}

const MetricSummary::Entry* MetricSummary::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

std::string MetricSummary::main_metric() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return choose_main_metric(names);
}

bool is_result(std::string_view name) { return name == kTrainingLoss || !is_trainers_own(name); }

std::string choose_main_metric(const std::vector<std::string>& names) {
  const auto rank = [](const std::string& name) {
    const int kind = is_accuracy(name) ? 0 : metric_direction(name) == Direction::up ? 1 : 2;
    const std::string_view evaluator = std::string_view(name).substr(0, name.rfind('/'));
    return std::tuple(names_training(evaluator), kind, is_of_class(name), data_rank(evaluator),
                      name);
  };
  std::string main;
  for (const std::string& name : names) {
    if (is_trainers_own(name) || metric_direction(name) == Direction::none) continue;
    if (main.empty() || rank(name) < rank(main)) main = name;
  }
  return main;
}

}  // namespace bv
