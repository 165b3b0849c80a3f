// The key `sample`: its values, and which data it works with.
#include "lib/input/sample_rule.h"

#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "lib/input/ops/common/text_tensor.h"
#include "test/input/fake_source.h"
#include "test/support/config.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

// 8 examples with the label `index >= 6` and a feature `w`, whose value is `weight`.
class WeightedSource : public FakeSource {
 public:
  explicit WeightedSource(std::function<double(int64_t)> weight, bool labelled = true)
      : FakeSource(8), labelled_(labelled) {
    transform = [weight = std::move(weight)](int64_t index, Example& example) {
      example["w"] = at::scalar_tensor(weight(index), at::kDouble);
    };
  }
  at::Tensor labels(size_t) const override {
    return labelled_ ? at::tensor({0, 0, 0, 0, 0, 0, 1, 1}, at::kLong) : at::Tensor();
  }

 private:
  const bool labelled_;
};

struct Made {
  std::shared_ptr<const ExampleSampler> sampler;
  std::vector<std::string> warnings;
};

Made make(const std::string& yaml, const std::shared_ptr<const Source>& source,
          int64_t error_budget = 0) {
  const Config config = parse_config(yaml, "x.yaml");
  const SampleRule rule = read_sample_rule(config);
  throw_problems(config);
  Made made;
  made.sampler = make_sampler(rule, *dataset(source), config, {2, error_budget, "input"});
  throw_problems(config);
  made.warnings = warnings(config);
  return made;
}

std::string rule_refusal(const std::string& yaml, const std::shared_ptr<const Source>& source,
                         int64_t error_budget = 0) {
  return error_of([&] { make(yaml, source, error_budget); });
}

std::map<int64_t, int64_t> counts(const ExampleSampler& sampler, int64_t positions) {
  std::map<int64_t, int64_t> found;
  for (int64_t p = 0; p < positions; ++p) ++found[sampler.pick(1, p)];
  return found;
}

std::shared_ptr<WeightedSource> by_index(bool labelled = true) {
  return std::make_shared<WeightedSource>([](int64_t i) { return static_cast<double>(i); },
                                          labelled);
}

}  // namespace

TEST_CASE("sample names classes or a feature") {
  CHECK(make("a: 1", by_index()).sampler == nullptr);
  CHECK(make("sample: uniform", by_index()).sampler == nullptr);
  const auto balanced = counts(*make("sample: balanced", by_index()).sampler, 1024);
  CHECK(balanced.at(6) + balanced.at(7) == 512);
  const auto root = counts(*make("sample: sqrt", by_index()).sampler, 1024);
  CHECK(std::abs(static_cast<double>(root.at(6) + root.at(7)) - 1024 / (1 + std::sqrt(3.0))) <= 1);
  const auto weighted = counts(*make("sample: {weights: w}", by_index(false)).sampler, 8 * 28);
  CHECK(weighted.count(0) == 0);
  for (int64_t i = 1; i < 8; ++i) CHECK(std::abs(weighted.at(i) - 8 * i) <= 2);
}

TEST_CASE("a sample that cannot work is refused at its place") {
  CHECK(rule_refusal("sample: even", by_index()).starts_with("x.yaml:1:9: error: sample: "));
  CHECK(rule_refusal("sample: {weight: w}", by_index()) ==
        "x.yaml:1:10: error: unknown key 'sample.weight' (did you mean 'weights'?)");
  CHECK(rule_refusal("sample: balanced", by_index(false)) ==
        "x.yaml:1:9: error: sample: needs labels that are known without reading the images, one "
        "class for each example, which this data does not have; {weights: FEATURE} needs none");
  CHECK(rule_refusal("sample: {weights: W}", by_index()) ==
        "x.yaml:1:9: error: sample: train/0.png: unknown feature 'W' (did you mean 'w'?); known: "
        "image, label, w");
  CHECK(rule_refusal("sample: {weights: image}", by_index()) ==
        "x.yaml:1:9: error: sample: train/0.png: 'image' has the shape (6, 5, 3), expected one "
        "number");
  const auto text = std::make_shared<WeightedSource>([](int64_t) { return 1.0; });
  text->transform = [](int64_t, Example& example) { example["w"] = text_tensor("1"); };
  CHECK(rule_refusal("sample: {weights: w}", text) ==
        "x.yaml:1:9: error: sample: train/0.png: 'w' is a string, expected one number");
  const auto with = [](double bad) {
    return std::make_shared<WeightedSource>([bad](int64_t i) { return i == 5 ? bad : 1.0; });
  };
  CHECK(rule_refusal("sample: {weights: w}", with(-2)) ==
        "x.yaml:1:9: error: sample: train/5.png: the weight 'w' is -2, expected a number of at "
        "least 0");
  CHECK(rule_refusal("sample: {weights: w}", with(std::numeric_limits<double>::quiet_NaN()))
            .find("the weight 'w' is nan") != std::string::npos);
  const auto nothing = std::make_shared<WeightedSource>([](int64_t) { return 0.0; });
  CHECK(rule_refusal("sample: {weights: w}", nothing) ==
        "x.yaml:1:9: error: sample: every weight 'w' is 0");
  const auto huge =
      std::make_shared<WeightedSource>([](int64_t) { return std::numeric_limits<double>::max(); });
  CHECK(rule_refusal("sample: {weights: w}", huge) ==
        "x.yaml:1:9: error: sample: the weights 'w' are too large: divide them by their mean");
}

TEST_CASE("an example that cannot be read has no weight, within the budget") {
  const auto source = by_index();
  source->on_read = [](int64_t i) {
    if (i >= 6) throw Error::bare(Exit::data, "truncated JPEG");
  };
  CHECK(rule_refusal("sample: {weights: w}", source, 1) ==
        "x.yaml:1:9: error: sample: train/7.png: truncated JPEG (input.skip_errors: N skips up to "
        "N such examples)");
  const Made made = make("sample: {weights: w}", source, 2);
  CHECK(made.warnings ==
        std::vector<std::string>{
            "x.yaml:1:9: warning: sample: 2 of 8 examples cannot be read and are not drawn"});
  const auto found = counts(*made.sampler, 8 * 15);
  CHECK(found.count(6) + found.count(7) == 0);
  CHECK(found.size() == 5);
}

TEST_CASE("an example that is known to be broken has no share of a class, within the budget") {
  struct Broken : WeightedSource {
    Broken() : WeightedSource([](int64_t) { return 1.0; }) {
      on_read = [](int64_t i) {
        if (i < 2) throw Error::bare(Exit::data, "truncated JPEG");
      };
    }
    at::Tensor labels(size_t) const override {
      constexpr int64_t kNo = Source::kNoLabel;
      return at::tensor(std::vector<int64_t>{kNo, kNo, 0, 0, 0, 0, 1, 1}, at::kLong);
    }
  };
  const auto source = std::make_shared<Broken>();
  for (const std::string word : {"balanced", "sqrt"}) {
    CHECK(rule_refusal("sample: " + word, source, 1) ==
          "x.yaml:1:9: error: sample: train/1.png: truncated JPEG (input.skip_errors: N skips up "
          "to N such examples)");
    const Made made = make("sample: " + word, source, 2);
    CHECK(made.warnings ==
          std::vector<std::string>{
              "x.yaml:1:9: warning: sample: 2 of 8 examples cannot be read and are not drawn"});
    const auto found = counts(*made.sampler, 1024);
    CHECK(found.count(0) + found.count(1) == 0);
    if (word == "balanced") CHECK(found.at(6) + found.at(7) == 512);
  }
  struct Nothing : WeightedSource {
    Nothing() : WeightedSource([](int64_t) { return 1.0; }) {}
    at::Tensor labels(size_t) const override {
      return at::tensor(std::vector<int64_t>(8, Source::kNoLabel), at::kLong);
    }
  };
  CHECK(rule_refusal("sample: balanced", std::make_shared<Nothing>(), 8) ==
        "x.yaml:1:9: error: sample: none of the examples can be read");
}

TEST_CASE("one class has nothing to be balanced with") {
  struct One : FakeSource {
    One() : FakeSource(3) {}
    at::Tensor labels(size_t) const override { return at::tensor({4, 4, 4}, at::kLong); }
  };
  CHECK(make("sample: balanced", std::make_shared<One>()).warnings ==
        std::vector<std::string>{
            "x.yaml:1:9: warning: sample: has no effect: all examples have the same class"});
}

}  // namespace bv::test
