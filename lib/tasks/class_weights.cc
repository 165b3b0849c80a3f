#include "lib/tasks/class_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/util/text.h"

namespace bv {
namespace {

// Returns the number of training examples per class (LabelCounts). Fails if a class has none, or if
// the labels are unknown.
std::vector<double> counts_of(const Config& config, const std::string& word, const TaskEnv& env) {
  if (env.label_feature != "label" && env.label_feature != "labels") {
    config.fail(
        "class_weights",
        fmt::format("'{}' counts the classes of the feature 'label', but input.pp makes the "
                    "labels from '{}'; give a list of {} weights",
                    word, env.label_feature, env.num_classes));
  }
  const LabelCounts labels = env.label_counts();
  if (labels.empty()) {
    config.fail("class_weights",
                fmt::format("'{}' needs training data whose labels are known before its examples "
                            "are read; give a list of {} weights",
                            word, env.num_classes));
  }
  std::vector<double> counts(static_cast<size_t>(env.num_classes));
  for (const auto& [label, count] : labels) {
    if (label < 0 || label >= env.num_classes) {
      config.fail("class_weights",
                  fmt::format("'{}': the training data have label {}, but num_classes is {}", word,
                              label, env.num_classes));
    }
    counts[label] = count;
  }
  std::vector<std::string> absent;
  for (size_t c = 0; c < counts.size(); ++c) {
    const bool named = c < env.class_names.size();
    if (counts[c] == 0) absent.push_back(named ? env.class_names[c] : std::to_string(c));
  }
  if (!absent.empty()) {
    config.fail("class_weights",
                fmt::format("'{}' cannot weight classes without a training example: {}; give a "
                            "list of {} weights",
                            word, short_list(absent), env.num_classes));
  }
  return counts;
}

std::vector<double> listed_weights(const Config& config, int64_t classes) {
  auto weights = config.maybe<std::vector<double>>("class_weights").value_or(std::vector<double>());
  if (std::any_of(weights.begin(), weights.end(), [](double weight) { return !(weight > 0); }))
    config.fail("class_weights", "must be positive numbers");
  if (classes > 0 && std::ssize(weights) != classes) {
    config.fail("class_weights",
                fmt::format("has {} weights, but num_classes is {}", weights.size(), classes));
  }
  return weights;
}

}  // namespace

std::vector<double> balanced_weights(const std::vector<double>& counts) {
  const double examples = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<double> weights;
  for (const double count : counts)
    weights.push_back(examples / (static_cast<double>(counts.size()) * count));
  return weights;
}

std::vector<double> effective_weights(const std::vector<double>& counts, double beta) {
  std::vector<double> weights;
  double sum = 0;
  for (const double count : counts) {
    // 1 - beta^count, without cancellation if beta is near 1.
    const double effective = beta > 0 ? -std::expm1(count * std::log(beta)) : 1;
    weights.push_back((1 - beta) / effective);
    sum += weights.back();
  }
  for (double& weight : weights) weight *= static_cast<double>(counts.size()) / sum;
  return weights;
}

std::vector<double> read_class_weights(const Config& config, const TaskEnv& env) {
  constexpr double kBeta = 0.999;  // the default
  const double beta = config.get<double>("class_weights_beta", kBeta);
  const bool beta_fits = beta >= 0 && beta < 1;
  if (!beta_fits)
    config.problem("class_weights_beta",
                   fmt::format("must be at least 0 and below 1, got {}", beta));
  if (config.is_map("class_weights")) {
    config.mark_read("class_weights");
    const std::string count = env.num_classes > 0 ? fmt::format("{} ", env.num_classes) : "";
    config.fail("class_weights",
                fmt::format("expected balanced, effective or a list of {}numbers in the order of "
                            "the classes, got a mapping",
                            count));
  }
  if (config.is_list("class_weights")) return listed_weights(config, env.num_classes);
  const auto word = config.maybe<std::string>("class_weights");
  if (beta != kBeta && word != "effective" && beta_fits)
    config.problem("class_weights_beta", "has no effect without class_weights: effective");
  if (!word) return {};
  if (*word != "balanced" && *word != "effective") {
    config.fail("class_weights",
                fmt::format("expected balanced, effective or a list of numbers, got '{}'", *word));
  }
  if (!env.label_counts || env.num_classes == 0 || !beta_fits) return {};
  const std::vector<double> counts = counts_of(config, *word, env);
  return *word == "balanced" ? balanced_weights(counts) : effective_weights(counts, beta);
}

}  // namespace bv
