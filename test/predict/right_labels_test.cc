// The labels shown next to predictions: those from the evaluator's pp.
#include "lib/predict/right_labels.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>

#include "test/input/fake_source.h"
#include "test/support/config.h"

namespace bv::test {
namespace {

using Classes = std::vector<int64_t>;

// Example 5 of a data set: `label` 5, `kind` 1, `size` 2.5, and `shares` of three classes.
std::shared_ptr<const Dataset> data() {
  auto source = std::make_shared<FakeSource>(8);
  source->transform = [](int64_t i, Example& example) {
    example["kind"] = at::full({}, i % 4, at::kLong);
    example["size"] = at::full({}, 0.5 * static_cast<double>(i), at::kFloat);
    example["shares"] = at::tensor({0.125F, 0.625F, 0.25F});
  };
  return dataset(source);
}

struct Reader {
  RightLabels labels;
  std::shared_ptr<const Pipeline> pp;

  explicit Reader(const std::string& ops, const std::string& evaluator = "type: classification",
                  bool numbers = false, const std::string& config = "num_classes: 3")
      : labels(from_yaml(config,
                         [&](const Config& whole) {
                           return from_yaml(evaluator, [&](const Config& own) {
                             return RightLabels(whole, own, *pipeline(ops), numbers);
                           });
                         })),
        pp(pipeline(ops)) {}

  // Of example 5, as pp makes it.
  RightLabel made() const {
    Example example = data()->read(5);
    Rng rng(0, Purpose::augment, 0);
    pp->apply(example, rng);
    return labels.of(example, *data(), 5).value();
  }
  // Of example 5, without the pp.
  std::optional<RightLabel> raw() const { return labels.of({}, *data(), 5); }
};

}  // namespace

TEST_CASE("the class is that of the feature from which pp makes the labels") {
  const Reader label(R"(onehot(8, key="label", key_result="labels")|keep("image", "labels"))");
  CHECK(label.made().classes == Classes{5});
  CHECK(label.raw()->classes == Classes{5});
  CHECK(label.labels.have_names_of_data());
  const Reader kind(R"(onehot(8, key="kind", key_result="labels"))");
  CHECK(kind.made().classes == Classes{1});
  CHECK(kind.raw()->classes == Classes{1});
  CHECK_FALSE(kind.labels.have_names_of_data());
  const Reader named(R"(onehot(8, key="kind", key_result="y"))", "label_key: y");
  CHECK(named.made().classes == Classes{1});
  CHECK(named.raw()->classes == Classes{1});
  CHECK(Reader("", "type: knn").made().classes == Classes{5});
  const RightLabels plain = from_yaml("num_classes: 8", [](const Config& config) {
    return RightLabels(config, /*numbers=*/false);
  });
  CHECK(plain.of({}, *data(), 5)->classes == Classes{5});
  CHECK_FALSE(plain.multilabel());
  CHECK_FALSE(Reader(R"(onehot(8, key="none", key_result="labels"))").raw());
}

TEST_CASE("of soft labels the largest counts, with multilabel those from one half on") {
  const std::string ops = R"(copy("shares", "labels"))";
  CHECK(Reader(ops).made().classes == Classes{1});
  CHECK(Reader(ops).raw()->classes == Classes{1});
  const Reader several(ops, "{multilabel: true, threshold: 0.25}");
  CHECK(several.labels.multilabel());
  CHECK(several.labels.threshold() == 0.25);
  CHECK(several.made().classes == Classes{1});
  CHECK(Reader(ops, "type: mean", false, "task_kw: {multilabel: true}").labels.multilabel());
  // Without an evaluator, only the task says it.
  const auto by_task = [](bool numbers) {
    return from_yaml("task_kw: {multilabel: true}", [&](const Config& config) {
      return RightLabels(config, numbers).multilabel();
    });
  };
  CHECK(by_task(false));
  CHECK_FALSE(by_task(true));
  const auto of = [](const Reader& reader, const at::Tensor& labels) {
    return reader.labels.of({{"labels", labels}}, *data(), 5)->classes;
  };
  CHECK(of(several, at::tensor({1.F, 0.F, 1.F})) == Classes{0, 2});
  CHECK(of(several, at::tensor({0.F, 0.F, 0.F})) == Classes{});
  CHECK(of(Reader(ops), at::tensor({0.F, 0.F, 0.F})) == Classes{});
  CHECK(of(Reader(ops), at::tensor({1.F, 0.F, 1.F})) == Classes{0, 2});
}

TEST_CASE("the right numbers are those of the labels, or of a single label") {
  const Reader copied(R"(copy("size", "labels"))", "type: regression", true);
  CHECK(copied.made().values == std::vector<float>{2.5F});
  CHECK(copied.raw()->values == std::vector<float>{2.5F});
  CHECK(Reader("", "type: regression", true).made().values == std::vector<float>{5.F});
  const Reader shares("", "label_key: shares", true);
  CHECK(shares.made().values == std::vector<float>{0.125F, 0.625F, 0.25F});
  CHECK(shares.made().classes.empty());
}

}  // namespace bv::test
