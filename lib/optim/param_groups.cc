#include "lib/optim/param_groups.h"

#include <algorithm>
#include <optional>

#include "lib/config/key_table.h"
#include "lib/optim/not_negative.h"
#include "lib/util/pattern.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable param_groups_keys(
    "", {"", "", "optax.py make"},
    {{"lr", "float >= 0", "required",
      "Learning rate: multiplies every update of the optimizer, together with the schedule. Try "
      "0.001 with `scale_by_adam`; a rate that is too high makes the loss jump or become nan.",
      "0.001"},
     {"schedule", "map | list of [string, map of schedule | null]", "{}",
      "How the learning rate and the weight decay change during the run; by default they are "
      "constant. A list gives parameters separate schedules: [regular expression of their whole "
      "names, schedule], where null freezes them. The first match counts, and every parameter must "
      "have one. A batch norm whose scale and bias are both frozen uses its running statistics in "
      "the training too, and does not change them.",
      "[['head/.*', {decay_type: cosine}], ['.*', null]]"},
     {"wd", "float >= 0", "0",
      "Weight decay: in each step a weight loses this fraction of itself, multiplied by the "
      "schedule but not by `lr`. To match the weight decay of PyTorch's AdamW, multiply that by "
      "`lr`: PyTorch's AdamW(lr=0.001, weight_decay=0.05) is `lr: 0.001` and `wd: 0.00005`.",
      "0.0001"},
     {"wd_mults", "list of [string, float >= 0]", "[['.*/kernel$', 1]]",
      "Which parameters decay: a list of [regular expression, factor of `wd`]. An expression must "
      "match the whole name of a parameter, such as head/kernel; the first match counts, and "
      "parameters without a match do not decay. By default all kernels decay, but no biases, norms "
      "or position embeddings.",
      "[['head/kernel', 0.1], ['.*/kernel', 1.0]]"},
     {"lr_mults", "list of [string, float > 0]", "[]",
      "Learning rate multipliers: a list of [regular expression, factor of `lr`]. An expression "
      "must match the whole name of a parameter, such as head/kernel; the first match counts, and "
      "parameters without a match have the factor 1. The weight decay stays the same. To freeze "
      "parameters, give them a null schedule.",
      "[['embedding/.*', 0.1]]"}});

// Compiled regular expressions, in config order.
class Patterns {
 public:
  // Records a problem with config[key] for each invalid pattern. If `warn`, also warns about each
  // pattern that has no effect on the parameters `names`.
  Patterns(const Config& config, std::string_view key, const std::vector<std::string>& patterns,
           const std::vector<std::string>& names, bool warn = true) {
    for (const std::string& pattern : patterns) compiled_.push_back(compile(config, key, pattern));
    for (size_t i = 0; i < patterns.size(); ++i) {
      const std::string why = warn && compiled_[i] ? why_unused(i, names) : "";
      if (!why.empty()) config.warn(key, fmt::format("the pattern '{}' {}", patterns[i], why));
    }
  }

  // Returns the index of the first pattern that matches `name`.
  std::optional<size_t> find(const std::string& name) const {
    for (size_t i = 0; i < compiled_.size(); ++i) {
      if (compiled_[i] && compiled_[i]->matches(name)) return i;
    }
    return std::nullopt;
  }

 private:
  // Returns why pattern i has no effect; "" if it has one. '.*' may be left with nothing: it is a
  // catch-all.
  std::string why_unused(size_t i, const std::vector<std::string>& names) const {
    const Pattern& pattern = *compiled_[i];
    const auto matches = [&](const std::string& name) { return pattern.matches(name); };
    const auto takes = [&](const std::string& name) { return find(name) == i; };
    if (std::none_of(names.begin(), names.end(), matches)) return "matches no parameter";
    if (pattern.text() == ".*" || std::any_of(names.begin(), names.end(), takes)) return "";
    return "has no effect: earlier patterns match all of its parameters, and the first match "
           "counts";
  }

  static std::optional<Pattern> compile(const Config& config, std::string_view key,
                                        const std::string& pattern) {
    const std::string problem = Pattern::name_problem(pattern);
    if (problem.empty()) return Pattern(pattern);
    config.problem(key, problem);
    return std::nullopt;
  }

  std::vector<std::optional<Pattern>> compiled_;
};

// A list of [pattern, factor] pairs; finds the factor of a parameter.
class Multipliers {
 public:
  Multipliers(const Config& config, std::string_view key,
              std::vector<std::pair<std::string, double>> pairs,
              const std::vector<std::string>& names, bool warn)
      : pairs_(std::move(pairs)), patterns_(config, key, first(pairs_), names, warn) {}
  std::optional<double> find(const std::string& name) const {
    const auto found = patterns_.find(name);
    if (!found) return std::nullopt;
    return pairs_[*found].second;
  }
  const std::vector<std::pair<std::string, double>>& pairs() const { return pairs_; }

  // Warns about each pattern whose parameters are all frozen. `schedules`: of each of the `names`.
  void warn_of_frozen(const Config& config, std::string_view key,
                      const std::vector<std::string>& names,
                      const std::vector<int>& schedules) const {
    std::vector<bool> frozen(pairs_.size(), false), trained(pairs_.size(), false);
    for (size_t i = 0; i < names.size(); ++i) {
      const auto found = patterns_.find(names[i]);
      if (found) (schedules[i] == kFrozen ? frozen : trained)[*found] = true;
    }
    for (size_t i = 0; i < pairs_.size(); ++i) {
      if (frozen[i] && !trained[i])
        config.warn(key, fmt::format("the pattern '{}' has no effect: all of its parameters are "
                                     "frozen",
                                     pairs_[i].first));
    }
  }

 private:
  static std::vector<std::string> first(const std::vector<std::pair<std::string, double>>& pairs) {
    std::vector<std::string> all;
    for (const auto& [pattern, value] : pairs) all.push_back(pattern);
    return all;
  }
  std::vector<std::pair<std::string, double>> pairs_;
  Patterns patterns_;
};

// Fills `schedules` and returns an index into it for each name, or kFrozen if its entry is null.
std::vector<int> read_schedules(const Config& config, const std::vector<std::string>& names,
                                const RunLength& length, std::vector<Schedule>& schedules) {
  if (!config.is_list("schedule")) {  // one schedule for all parameters; absent: constant 1
    schedules.emplace_back(config.section("schedule"), length);
    return std::vector<int>(names.size(), 0);
  }
  std::vector<std::string> patterns;
  std::vector<int> index;
  for (const auto& [pattern, schedule] : config.pattern_sections("schedule")) {
    patterns.push_back(pattern);
    index.push_back(schedule ? static_cast<int>(schedules.size()) : kFrozen);
    if (schedule) schedules.emplace_back(*schedule, length);
  }
  if (patterns.empty())
    config.fail("schedule", "is an empty list; leave it out for a constant learning rate");
  if (schedules.empty()) {
    config.fail("schedule", "every entry is null: nothing would be trained");
  }
  const size_t problems = problem_count(config);
  const Patterns compiled(config, "schedule", patterns, names);
  // It is not known which parameters a wrong pattern was meant for.
  if (problem_count(config) > problems) return std::vector<int>(names.size(), 0);
  std::vector<int> found;
  std::vector<std::string> uncovered;
  for (const std::string& name : names) {
    const auto match = compiled.find(name);
    if (!match) uncovered.push_back(name);
    found.push_back(match ? index[*match] : kFrozen);
  }
  if (!uncovered.empty()) {
    config.fail("schedule", "no pattern matches " + short_list(uncovered) +
                                "; add an entry ['.*', {...}], or ['.*', null] to freeze the rest");
  }
  if (!names.empty() &&
      std::all_of(found.begin(), found.end(), [](int i) { return i == kFrozen; })) {
    config.fail("schedule", "every parameter is frozen: nothing would be trained");
  }
  return found;
}

Multipliers read_lr_mults(const Config& config, const std::vector<std::string>& names) {
  using Pairs = std::vector<std::pair<std::string, double>>;
  Multipliers mults(config, "lr_mults", config.get("lr_mults", Pairs{}), names, true);
  for (const auto& [pattern, mult] : mults.pairs()) {
    if (!(mult > 0)) {
      config.problem("lr_mults", fmt::format("the multiplier of '{}' must be positive, got {}; to "
                                             "freeze parameters give them a null schedule",
                                             pattern, mult));
    }
  }
  return mults;
}

// Warns if `decay`, the largest weight decay of a parameter, is probably that of an optimizer which
// multiplies it by the learning rate, as PyTorch's do.
void warn_of_strong_decay(const Config& config, double lr, double decay) {
  constexpr double kStrong = 0.01;
  if (decay < kStrong || decay <= lr || lr == 0) return;
  config.warn("wd", fmt::format("each step takes up to {:.3g} % of a weight, because 'lr' does not "
                                "multiply 'wd'; PyTorch's AdamW(lr={:g}, weight_decay={:g}) is "
                                "'wd: {:g}' here",
                                100 * decay, lr, decay, lr * decay));
}

}  // namespace

ParamGroups read_groups(const Config& config, const std::vector<std::string>& names,
                        const RunLength& length) {
  using Pairs = std::vector<std::pair<std::string, double>>;
  ParamGroups result;
  double lr = 0;
  attempt(config, [&] {
    lr = config.get<double>("lr");
    check_not_negative(config, "lr", lr);
    result.lr = static_cast<float>(lr);
  });
  const Multipliers lr_mults = read_lr_mults(config, names);
  const auto wd = config.get<double>("wd", 0.0);
  check_not_negative(config, "wd", wd);
  const bool given = config.has("wd_mults");
  if (given && !config.has("wd")) config.warn("wd_mults", "has no effect without wd");
  const Pairs kernels = {{".*/kernel$", 1.0}};
  const Multipliers wd_mults(config, "wd_mults", config.get<Pairs>("wd_mults", kernels), names,
                             given);
  for (const auto& [pattern, mult] : wd_mults.pairs())
    check_not_negative(config, "wd_mults", mult, fmt::format("the multiplier of '{}'", pattern));
  std::vector<int> schedule(names.size(), 0);
  attempt(config, [&] { schedule = read_schedules(config, names, length, result.schedules); });
  lr_mults.warn_of_frozen(config, "lr_mults", names, schedule);
  if (wd_mults.pairs() != kernels)  // the config.yaml of a run gives the default
    wd_mults.warn_of_frozen(config, "wd_mults", names, schedule);

  double strongest = 0;  // weight decay
  for (size_t i = 0; i < names.size(); ++i) {
    if (schedule[i] == kFrozen) {
      result.group_of.push_back(kFrozen);
      continue;
    }
    const double decay = wd * wd_mults.find(names[i]).value_or(0.0);
    strongest = std::max(strongest, decay);
    const ParamGroups::Group group{
        .schedule = schedule[i],
        .lr_mult = static_cast<float>(lr_mults.find(names[i]).value_or(1.0)),
        .weight_decay = static_cast<float>(decay)};
    const auto known = std::find(result.groups.begin(), result.groups.end(), group);
    result.group_of.push_back(static_cast<int>(known - result.groups.begin()));
    if (known == result.groups.end()) result.groups.push_back(group);
  }
  if (wd > 0 && strongest == 0 && (wd_mults.pairs().empty() || wd_mults.pairs() == kernels))
    config.warn("wd", "has no effect: no trained parameter has weight decay; see wd_mults");
  warn_of_strong_decay(config, lr, strongest);
  return result;
}

void freeze_parameters(const ParamGroups& groups, const Model& model) {
  const Module::Named all = named_parameters(model);
  for (size_t i = 0; i < all.size(); ++i) {
    if (groups.group_of.at(i) == kFrozen) all[i].second.set_requires_grad(false);
  }
}

void freeze_parameters(const Config& config, const Model& model) {
  if (!config.is_list("schedule")) return;
  std::vector<std::string> patterns;
  std::vector<bool> frozen;
  for (const auto& [pattern, schedule] : config.pattern_sections("schedule")) {
    patterns.push_back(pattern);
    frozen.push_back(!schedule);
  }
  const Patterns compiled(config, "schedule", patterns, {}, /*warn=*/false);
  for (const auto& [name, parameter] : named_parameters(model)) {
    const auto match = compiled.find(name);
    if (match && frozen[*match]) parameter.set_requires_grad(false);
  }
}

std::vector<UpdateRange> update_ranges(const ParamGroups& groups, const FlatParams& params) {
  std::vector<UpdateRange> ranges;
  int last = kFrozen;
  for (const FlatParams::OwnedSlice& own : params.owned_slices()) {
    const ParamGroups::Group& group = groups.groups.at(static_cast<size_t>(own.entry->group));
    // Without sharding the sums are not reduced over ranks, so every rank counts every range.
    const bool counts = own.entry->segment >= 0 || params.rank() == 0 || params.segments().empty();
    const bool extends_last = last == own.entry->group && ranges.back().counts == counts &&
                              ranges.back().end == own.state &&
                              own.data - ranges.back().data == own.state - ranges.back().begin &&
                              own.grad - ranges.back().grad == own.state - ranges.back().begin;
    last = own.entry->group;
    if (extends_last) {
      ranges.back().end += own.count;
      continue;
    }
    ranges.push_back({.begin = own.state,
                      .end = own.state + own.count,
                      .data = own.data,
                      .grad = own.grad,
                      .counts = counts,
                      .schedule = group.schedule,
                      .lr_mult = group.lr_mult,
                      .weight_decay = group.weight_decay});
  }
  return ranges;
}

}  // namespace bv
