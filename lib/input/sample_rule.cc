#include "lib/input/sample_rule.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <optional>
#include <vector>

#include "lib/input/loader/check_examples.h"
#include "lib/input/ordered_work.h"
#include "lib/report/log.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable sample_rule_keys(
    "input.sample",
    {"How often to draw each example: in proportion to a feature.", "weights: importance"},
    {{"weights", "string", "required",
      "Name of the feature with the weight of each example, a number of at least 0, such as a "
      "column of a CSV file. Each start reads all examples once to collect their weights; for csv "
      "and jsonl only the rows. An example of weight 0 is never drawn.",
      "importance"}});

// The weight of one example, or why it has none.
struct ReadWeight {
  double weight = 0;
  std::string problem;                         // with the weight; the example's name follows
  std::optional<ExampleFailure> failure = {};  // the example cannot be read
};

ReadWeight weight_of(const Example& example, const std::string& feature) {
  const auto found = example.find(feature);
  if (found == example.end()) {
    std::vector<std::string> known;
    for (const auto& [key, value] : example) known.push_back(key);
    return {0, unknown_name_message("feature", feature, known)};
  }
  const at::Tensor& value = found->second;
  if (value.dim() == 1 && value.scalar_type() == at::kByte)
    return {0, fmt::format("'{}' is a string, expected one number", feature)};
  const bool number =
      value.numel() == 1 && (at::isFloatingType(value.scalar_type()) ||
                             at::isIntegralType(value.scalar_type(), /*includeBool=*/true));
  if (!number) {
    return {0, fmt::format("'{}' has the shape {}, expected one number", feature,
                           shape_text(value.sizes()))};
  }
  const auto weight = value.item<double>();
  if (!std::isfinite(weight) || weight < 0) {
    return {0,
            fmt::format("the weight '{}' is {}, expected a number of at least 0", feature,
                        std::isfinite(weight) ? short_number(weight) : fmt::format("{}", weight))};
  }
  return {weight, ""};
}

ReadWeight read_weight(const Dataset& data, int64_t index, const std::string& feature) {
  Example example;
  try {
    example = data.read_values(index);
  } catch (...) {
    ExampleFailure failure = current_failure(data, index);
    if (failure.of_config || failure.code != Exit::data) throw;
    return {0, "", std::move(failure)};
  }
  return weight_of(example, feature);
}

void warn_of_broken(int64_t count, const Dataset& data, const Config& config) {
  if (count == 0) return;
  config.warn("sample", fmt::format("{} of {} examples cannot be read and are not drawn", count,
                                    data.size()));
}

// Fails if more examples are known to be broken than the budget allows. They have no share, so
// training would not count them. Reads the first one beyond the budget to get the reason.
void check_broken(const std::vector<int64_t>& labels, const Dataset& data, const Config& config,
                  const WeightReading& reading) {
  int64_t broken = 0;
  for (int64_t i = 0; i < std::ssize(labels); ++i) {
    if (labels[i] != Source::kNoLabel || ++broken <= reading.error_budget) continue;
    try {
      data.read(i);
    } catch (...) {
      const ExampleFailure failure = current_failure(data, i);
      if (failure.of_config || failure.code != Exit::data) throw;
      config.fail("sample", start_error(failure, reading.section).message());
    }
  }
  warn_of_broken(broken, data, config);
}

// Reads the weights of all examples.
std::vector<double> read_weights(const std::string& feature, const Dataset& data,
                                 const Config& config, const WeightReading& reading) {
  log::info("Reading all {} examples once, for their weights '{}'", human_count(data.size()),
            feature);
  std::vector<double> weights;
  weights.reserve(data.size());
  int64_t failed = 0;
  results_in_order(
      data.size(), reading.threads, [&](int64_t i) { return read_weight(data, i, feature); },
      [&](int64_t i, const ReadWeight& one) {
        if (one.failure && ++failed > reading.error_budget)
          config.fail("sample", start_error(*one.failure, reading.section).message());
        if (!one.problem.empty())
          config.fail("sample", fmt::format("{}: {}", data.describe(i), one.problem));
        weights.push_back(one.weight);
        log::progress(fmt::format("weights: {} of {} examples", human_count(i + 1),
                                  human_count(data.size())));
      });
  log::clear_progress();
  warn_of_broken(failed, data, config);
  double sum = 0;
  for (const double weight : weights) sum += weight;
  if (!(sum > 0)) config.fail("sample", fmt::format("every weight '{}' is 0", feature));
  if (!std::isfinite(sum))
    config.fail("sample",
                fmt::format("the weights '{}' are too large: divide them by their mean", feature));
  return weights;
}

}  // namespace

SampleRule read_sample_rule(const Config& config) {
  using Kind = SampleRule::Kind;
  if (config.is_map("sample")) {
    const Config section = config.section("sample");
    SampleRule rule;
    if (attempt(section, [&] { rule.feature = section.get<std::string>("weights"); }))
      rule.kind = Kind::weights;
    section.done(/*although_incomplete=*/true);
    return rule;
  }
  const std::string word = config.word("sample", "uniform", {"uniform", "balanced", "sqrt"});
  return {word == "balanced" ? Kind::balanced
          : word == "sqrt"   ? Kind::square_root
                             : Kind::uniform,
          ""};
}

std::shared_ptr<const ExampleSampler> make_sampler(const SampleRule& rule, const Dataset& data,
                                                   const Config& config,
                                                   const WeightReading& reading) {
  if (rule.is_uniform()) return nullptr;
  if (rule.kind == SampleRule::Kind::weights)
    return sample_weighted(read_weights(rule.feature, data, config, reading));
  const std::vector<int64_t> labels = data.labels();
  if (labels.empty()) {
    config.fail("sample",
                "needs labels that are known without reading the images, one class for each "
                "example, which this data does not have; {weights: FEATURE} needs none");
  }
  check_broken(labels, data, config, reading);
  const size_t classes = data.label_counts().size();
  if (classes == 0) config.fail("sample", "none of the examples can be read");
  if (classes == 1) config.warn("sample", "has no effect: all examples have the same class");
  return sample_classes(labels, rule.kind == SampleRule::Kind::balanced ? ClassShares::equal
                                                                        : ClassShares::square_root);
}

}  // namespace bv
