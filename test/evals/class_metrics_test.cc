// class_metrics and regression: scikit-learn's values, rejected inputs, and data for the report.
#include "lib/evals/common/class_details.h"
#include "lib/util/text.h"
#include "test/evals/support.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

using Names = std::vector<std::string>;

const Names kOfClasses = {
    "accuracy",     "precision_macro", "precision_micro", "precision_weighted",
    "recall_macro", "recall_micro",    "recall_weighted", "f1_macro",
    "f1_micro",     "f1_weighted",     "auroc_macro",     "auroc_weighted",
    "map",          "ap_weighted",     "log_loss",        "brier"};

const Names kPerClass = {"precision_per_class", "recall_per_class", "f1_per_class",
                         "auroc_per_class", "ap_per_class"};

// Compares metrics with scikit-learn's values; both are NaN where it defines none.
void check_equal(const Measured& measured, const Names& names, const at::Tensor& golden) {
  REQUIRE(measured.names() == names);
  REQUIRE(golden.numel() == std::ssize(names));
  for (size_t i = 0; i < names.size(); ++i) {
    INFO(names[i]);
    const double expected = golden[i].item<double>();
    if (std::isnan(expected))
      CHECK(std::isnan(measured.values[i].second));
    else
      CHECK(std::abs(measured.values[i].second - expected) <= 1e-12 * std::max(1.0, expected));
  }
}

void check_confusion(const Measured& measured, const at::Tensor& golden) {
  const auto& matrix = measured.details.at(0).confusion;
  REQUIRE(std::ssize(matrix) == golden.size(0));
  for (int64_t truth = 0; truth < golden.size(0); ++truth) {
    for (int64_t guess = 0; guess < golden.size(1); ++guess)
      CHECK(matrix[truth][guess] == golden[truth][guess].item<int64_t>());
  }
}

Measured measure_names(const std::string& file, const Names& asked, const std::string& more) {
  return measure("class_metrics",
                 npz_config(file, fmt::format("metrics: [{}]{}", join(asked, ", "), more)));
}

Names with_classes(Names names, int64_t classes) {
  for (const char* stem : {"precision@", "recall@", "f1@", "auroc@", "ap@"}) {
    for (int64_t c = 0; c < classes; ++c) names.push_back(stem + std::to_string(c));
  }
  return names;
}

TEST_CASE("class_metrics equals scikit-learn: one class per example, ties, absent classes") {
  const std::string golden_npz = golden_file("scikit_learn.npz");
  if (golden_npz.empty()) return;
  const NamedTensors golden = read_npz(golden_npz);
  for (int i = 0; i < 8; ++i) {
    const std::string name = fmt::format("one{}/", i);
    INFO(name);
    const at::Tensor& logits = golden.at(name + "logits");
    const int64_t classes = logits.size(1);
    const TempFolder folder;
    const std::string numbers =
        store_logits(folder, logits, golden.at(name + "truth"), "numbers.npz");
    const std::string one_hot = store_logits(
        folder, logits, at::one_hot(golden.at(name + "truth"), classes).to(at::kFloat), "hot.npz");
    Names asked = kOfClasses;
    asked.insert(asked.end(), {"balanced_accuracy", "top1", "top2"});
    Names found = with_classes(asked, classes);
    asked.insert(asked.end(), kPerClass.begin(), kPerClass.end());
    for (const int batch_size : {64, 7}) {
      const std::string more = fmt::format(", batch_size: {}", batch_size);
      const Measured measured = measure_names(numbers, asked, more);
      check_equal(measured, found, golden.at(name + "metrics"));
      check_confusion(measured, golden.at(name + "confusion"));
      check_equal(measure_names(one_hot, asked, more), found, golden.at(name + "metrics"));
    }
  }
}

TEST_CASE("class_metrics equals scikit-learn: several classes per example") {
  const std::string golden_npz = golden_file("scikit_learn.npz");
  if (golden_npz.empty()) return;
  const NamedTensors golden = read_npz(golden_npz);
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("several{}/", i);
    INFO(name);
    const at::Tensor& logits = golden.at(name + "logits");
    const TempFolder folder;
    const std::string file = store_logits(folder, logits, golden.at(name + "labels"));
    Names asked = kOfClasses;
    asked.insert(asked.end(), kPerClass.begin(), kPerClass.end());
    check_equal(measure_names(file, asked, ", multilabel: true, batch_size: 9"),
                with_classes(kOfClasses, logits.size(1)), golden.at(name + "metrics"));
  }
}

TEST_CASE("regression equals scikit-learn: several targets, a constant one, one example") {
  const std::string golden_npz = golden_file("scikit_learn.npz");
  if (golden_npz.empty()) return;
  const NamedTensors golden = read_npz(golden_npz);
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("numbers{}/", i);
    INFO(name);
    const at::Tensor& predicted = golden.at(name + "predicted");
    const int64_t targets = predicted.size(1);
    const TempFolder folder;
    const Measured measured = measure(
        "regression",
        npz_config(store_logits(folder, predicted, golden.at(name + "labels")), "batch_size: 7"));
    Names names = {"mae", "mse", "rmse", "r2"};
    // The golden values of targets are metric by metric; the evaluator's are target by target.
    const at::Tensor all = golden.at(name + "metrics");
    std::vector<at::Tensor> expected = {all.narrow(0, 0, 4)};
    for (int64_t t = 0; targets > 1 && t < targets; ++t) {
      for (const char* metric : {"mae", "mse", "rmse", "r2"})
        names.push_back(fmt::format("{}@{}", metric, t));
      expected.push_back(all.narrow(0, 4, 4 * targets).view({4, targets}).select(1, t));
    }
    check_equal(measured, names, at::cat(expected));
    CHECK(measured.details.at(0).residuals.size() == static_cast<size_t>(targets));
    CHECK(measured.details.at(0).residuals[0].points.size() ==
          static_cast<size_t>(predicted.size(0)));
  }
}

TEST_CASE("class_metrics by hand: an example without a class is left out, or counts") {
  const TempFolder folder;
  const at::Tensor logits =
      at::tensor({3., 1., 0., 3., 0., 1., 9., 0., 0., 0., 5., 5.}).to(at::kFloat).view({4, 3});
  const at::Tensor labels =
      at::tensor({1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 0., 1.}).to(at::kFloat).view({4, 3});
  const std::string file = store_logits(folder, logits, labels);
  const Measured one = measure_names(
      file, {"accuracy", "balanced_accuracy", "f1_macro", "top2", "recall_per_class"}, "");
  CHECK(one.at("accuracy") == Approx(1 / 3.));  // of equal outputs the lower class is predicted
  CHECK(one.at("balanced_accuracy") == 0.5);    // class 1 does not occur
  CHECK(one.at("f1_macro") == Approx((2 / 3. + 0 + 0) / 3));
  CHECK(one.at("top2") == 1);
  CHECK(one.at("recall@0") == 1);
  const auto& details = one.details.at(0);
  CHECK(details.confusion == std::vector<std::vector<int64_t>>{{1, 0, 0}, {0, 0, 0}, {1, 1, 0}});
  REQUIRE(details.classes.size() == 3);
  CHECK(details.classes[2].examples == 2);
  CHECK(std::isnan(details.classes[1].auroc));
  REQUIRE(details.curves.size() == 3);  // the mean, and the two classes that occur
  CHECK(details.curves[0].name == "mean");
  CHECK(details.curves[1].name == "0");  // its AP is lower

  const Measured several =
      measure_names(file, {"accuracy", "recall_micro"}, ", multilabel: true, threshold: 0.8");
  CHECK(several.at("accuracy") == 0.25);  // only the first example has all its classes right
  CHECK(several.at("recall_micro") == Approx(2 / 3.));
  CHECK(several.details.at(0).confusion.empty());
}

TEST_CASE("names of metrics have an underscore for each special character of a class") {
  CHECK(class_name_ends({"cat", "dog.v2", "a-b_c"}) == Names{"cat", "dog.v2", "a-b_c"});
  CHECK(class_name_ends({"age", "body height"}) == Names{"age", "body_height"});
  CHECK(class_name_ends({"größe", "b(mm)", "猫", ""}) == Names{"gr__e", "b_mm_", "2", "3"});
  // Only classes with the same name get their numbers. An unchanged name stays.
  CHECK(class_name_ends({"a b", "a(b", "c"}) == Names{"0", "1", "c"});
  CHECK(class_name_ends({"a b", "a_b", "c"}) == Names{"0", "a_b", "c"});
  CHECK(class_name_ends({"x", "x", "c"}) == Names{"0", "1", "c"});
  CHECK(class_name_ends({"1", "a b", "a(b"}) == Names{"0", "1", "2"});
}

TEST_CASE("class_metrics takes multilabel from the task of the run") {
  const TempFolder folder;
  const at::Tensor logits = at::tensor({2.F, -2.F, 2.F, -2.F, -2.F, 2.F, -2.F, -2.F}).view({4, 2});
  const at::Tensor labels = at::tensor({1.F, 0.F, 0.F, 0.F, 0.F, 1.F, 0.F, 0.F}).view({4, 2});
  const std::string file = store_logits(folder, logits, labels);
  const auto accuracy = [&](bool multilabel, const std::string& keys) {
    EvalEnv env;
    env.name = "e";
    env.batch_size = 16;
    env.multilabel = multilabel;
    const auto evaluator =
        from_yaml(npz_config(file, "metrics: [accuracy]" + keys), [&](const Config& config) {
          return Evaluator::Registry::make("class_metrics", config, {}, env);
        });
    return measure(*evaluator).at("accuracy");
  };
  CHECK(accuracy(true, "") == 0.75);
  CHECK(accuracy(true, ", threshold: 0.4") == 0.75);
  CHECK(accuracy(true, ", multilabel: false") == 1);  // two images have no class
  CHECK(accuracy(false, "") == 1);
  CHECK(accuracy(false, ", multilabel: true") == 0.75);
}

// The metrics of soft labels in closed form, from log(softmax(logits)) or log(sigmoid(logits)).
struct SoftReference {
  double log_loss, brier;
};

SoftReference soft_reference(const at::Tensor& logits, const at::Tensor& labels, bool multilabel) {
  const at::Tensor z = logits.to(at::kDouble), y = labels.to(at::kDouble);
  if (multilabel) {
    const at::Tensor losses = y * at::log_sigmoid(z) + (1 - y) * at::log_sigmoid(-z);
    return {-losses.mean().item<double>(), (z.sigmoid() - y).square().mean().item<double>()};
  }
  const double terms = z.size(1) == 2 ? 0.5 : 1;  // those of two classes are equal: one counts
  return {-(y * z.log_softmax(1)).sum(1).mean().item<double>(),
          terms * (z.softmax(1) - y).square().sum(1).mean().item<double>()};
}

// Checks log_loss and brier of soft labels against soft_reference(), and that the other metrics
// equal those of labels rounded to 0 and 1.
void check_soft_labels(int64_t classes, bool multilabel) {
  const TempFolder folder;
  const at::Tensor logits = noise({40, classes}, 1);
  const at::Tensor shares = (noise({40, classes}, 2) * 2).softmax(1);
  const at::Tensor right = multilabel ? shares.ge(0.5) : at::one_hot(shares.argmax(1), classes);
  const std::string more = multilabel ? ", multilabel: true" : "";
  Names asked = kOfClasses;
  asked.insert(asked.end(), kPerClass.begin(), kPerClass.end());
  const Measured hard =
      measure_names(store_logits(folder, logits, right.to(at::kFloat), "hard.npz"), asked,
                    more + ", batch_size: 7");
  const Measured soft = measure_names(store_logits(folder, logits, shares, "soft.npz"), asked,
                                      more + ", soft_labels: true, batch_size: 7");
  const SoftReference reference = soft_reference(logits, shares, multilabel);
  CHECK(soft.at("log_loss") == Approx(reference.log_loss).epsilon(1e-12));
  CHECK(soft.at("brier") == Approx(reference.brier).epsilon(1e-12));
  CHECK(soft.at("log_loss") != Approx(hard.at("log_loss")));
  REQUIRE(soft.names() == hard.names());
  for (const auto& [name, value] : hard.values)
    if (name != "log_loss" && name != "brier") CHECK(soft.at(name) == value);
  // Labels of 0 and 1 give bit-identical results with and without the key.
  CHECK(measure_names(folder / "hard.npz", kOfClasses, more + ", soft_labels: true").values ==
        measure_names(folder / "hard.npz", kOfClasses, more).values);
}

TEST_CASE("class_metrics of soft labels: log loss and Brier score use the shares") {
  for (const int64_t classes : {2, 5}) {
    for (const bool multilabel : {false, true}) {
      INFO(classes << " classes, multilabel " << multilabel);
      check_soft_labels(classes, multilabel);
    }
  }
}

TEST_CASE("class_metrics of soft labels: of equal shares the lower class is right") {
  const TempFolder folder;
  const at::Tensor logits = at::tensor({1.f, 3.f, 0.f, 1.f, 3.f, 0.f, 2.f, 0.f, 0.f}).view({3, 3});
  const at::Tensor shares =
      at::tensor({0.5f, 0.5f, 0.f, 0.25f, 0.7496f, 0.f, 0.f, 0.f, 0.f}).view({3, 3});
  const Measured measured = measure_names(store_logits(folder, logits, shares),
                                          {"accuracy", "recall_per_class"}, ", soft_labels: true");
  CHECK(measured.at("accuracy") == 0.5);  // of two: the last example has no class
  CHECK(measured.at("recall@0") == 0);
  CHECK(measured.at("recall@1") == 1);
  CHECK(measured.details.at(0).confusion ==
        std::vector<std::vector<int64_t>>{{0, 1, 0}, {0, 1, 0}, {0, 0, 0}});
}

TEST_CASE("curves have at most 200 points and keep their ends") {
  const TempFolder folder;
  const at::Tensor labels = at::one_hot(at::arange(3000).remainder(2), 2).to(at::kFloat);
  const std::string file = store_logits(folder, noise({3000, 2}, 1) + labels, labels);
  const Measured measured = measure_names(file, {"auroc_macro"}, ", batch_size: 500");
  for (const auto& curves : measured.details.at(0).curves) {
    REQUIRE(!curves.roc.empty());
    CHECK(curves.roc.size() <= 200);
    CHECK(curves.precision_recall.size() <= 200);
    CHECK(curves.roc.back() == std::pair(1.0, 1.0));
    CHECK(curves.precision_recall.back().first == 1);
  }
}

TEST_CASE("class_metrics: the metrics that are computed by default") {
  const TempFolder folder;
  const at::Tensor labels = at::one_hot(at::arange(9).remainder(3), 3).to(at::kFloat);
  const std::string file = store_logits(folder, noise({9, 3}, 1), labels);
  CHECK(measure("class_metrics", npz_config(file, "batch_size: 4")).names() ==
        Names{"accuracy", "balanced_accuracy", "precision_macro", "recall_macro", "f1_macro",
              "auroc_macro", "map", "log_loss", "brier"});
  CHECK(measure("class_metrics", npz_config(file, "multilabel: true")).names() ==
        Names{"accuracy", "f1_micro", "precision_macro", "recall_macro", "f1_macro", "auroc_macro",
              "map", "log_loss", "brier"});
}

TEST_CASE("class_metrics refuses labels and keys that do not fit") {
  const TempFolder folder;
  const at::Tensor logits = noise({3, 4}, 1);
  at::Tensor two = at::one_hot(at::arange(3), 4).to(at::kFloat);
  two[1][3] = 1;
  const std::string several = store_logits(folder, logits, two, "two.npz");
  CHECK(refusal("class_metrics", npz_config(several, "batch_size: 2"), Exit::data) ==
        "error: evaluator 'e': 'labels' of train row 1 has several classes; add multilabel: true");
  const std::string soft = store_logits(folder, logits, two * 0.5, "soft.npz");
  CHECK(refusal("class_metrics", npz_config(soft, "multilabel: true"), Exit::data) ==
        "error: evaluator 'e': 'labels' of train row 0 has values that are neither 0 nor 1; if "
        "they are fractions of classes, add soft_labels: true");
  CHECK(refusal("class_metrics", npz_config(soft, "soft_labels: true"), Exit::data) ==
        "error: evaluator 'e': 'labels' of train row 0 has fractions that do not add up to 1");
  const std::string outside = store_logits(folder, logits, two * 1.5, "outside.npz");
  CHECK(refusal("class_metrics", npz_config(outside, "soft_labels: true, multilabel: true"),
                Exit::data) ==
        "error: evaluator 'e': 'labels' of train row 0 has fractions outside 0 .. 1");
  const std::string number = store_logits(folder, logits, at::arange(2, 5), "number.npz");
  CHECK(refusal("class_metrics", npz_config(number, "batch_size: 2"), Exit::data) ==
        "error: evaluator 'e': 'labels' of train row 2 is not within 0 .. 3");
  CHECK(refusal("class_metrics", npz_config(number, "multilabel: true")) ==
        "error: evaluator 'e': multilabel needs a number per class, but 'labels' is one number per "
        "example");
  CHECK(refusal("class_metrics", npz_config(number, "soft_labels: true")) ==
        "error: evaluator 'e': soft_labels needs a number per class, but 'labels' is one number "
        "per example");
  const std::string none = store_logits(folder, logits, two * 0, "none.npz");
  CHECK(refusal("class_metrics", npz_config(none, "batch_size: 2")) ==
        "error: evaluator 'e': no example of its data has a label");
  CHECK(refusal("class_metrics", npz_config(several, "metrics: [top4]")) ==
        "error: evaluator 'e': the metric top4 of 4 classes is always 1");
  CHECK_THAT(refusal("class_metrics", npz_config(several, "metrics: [f1_marco]")),
             Catch::Contains("metrics: unknown metric 'f1_marco' (did you mean 'f1_macro'?)"));
  CHECK_THAT(refusal("class_metrics", npz_config(several, "metrics: [top0]")),
             Catch::Contains("unknown metric 'top0'"));
  CHECK_THAT(refusal("class_metrics", npz_config(several, "metrics: [map, map]")),
             Catch::Contains("metrics: has map twice"));
  CHECK_THAT(refusal("class_metrics", npz_config(several, "metrics: []")),
             Catch::Contains("metrics: is empty"));
  CHECK_THAT(refusal("class_metrics", npz_config(several, "metrics: [top2], multilabel: true")),
             Catch::Contains("metrics: top2 needs exactly one class per image; it does not work "
                             "with multilabel: true"));
  CHECK_THAT(refusal("class_metrics", npz_config(several, "threshold: 0.3")),
             Catch::Contains("threshold: has no effect without multilabel: true"));
}

TEST_CASE("class_metrics refuses a class number that the model does not have before the run") {
  const TempFolder folder;
  at::Tensor label = at::arange(40) % 4;
  label[37] = 6;
  write_npz(folder / "d.npz", {{"image", at::zeros({40, 2, 2, 3})}, {"label", label}});
  const std::string line = error_of([&] {
    from_yaml(npz_config(folder / "d.npz", "label_key: label"), [&](const Config& config) {
      EvalEnv env;
      env.name = "e";
      env.batch_size = 2;
      env.data.source.num_classes = 4;
      return Evaluator::Registry::make("class_metrics", config, {}, env)->probe(2);
    });
  });
  CHECK(line == "error: evaluator 'e': 'label' of train row 37 is not within 0 .. 3");
}

TEST_CASE("outputs that are NaN or infinite are refused with the first example") {
  const TempFolder folder;
  at::Tensor logits = noise({5, 3}, 1);
  logits[4][0] = std::nan("");
  logits[2][1] = std::numeric_limits<float>::infinity();
  const at::Tensor labels = at::one_hot(at::arange(5).remainder(3), 3).to(at::kFloat);
  const std::string file = store_logits(folder, logits, labels);
  for (const char* type : {"class_metrics", "regression"}) {
    for (const int batch_size : {1, 3, 16}) {
      CHECK(refusal(type, npz_config(file, fmt::format("batch_size: {}", batch_size)),
                    Exit::diverged) ==
            "error: evaluator 'e': the model's output for train row 2 is NaN or infinite");
    }
  }
}

TEST_CASE("in a run of the task regress, whole numbers to predict may be negative") {
  const TempFolder folder;
  write_npz(folder / "d.npz",
            {{"image", at::zeros({4, 2, 2, 3})}, {"label", at::tensor({5, -19, 3, 7}, at::kLong)}});
  const auto refused = [&](const std::optional<ClassNames>& classes) {
    return error_of([&] {
      from_yaml(npz_config(folder / "d.npz", "label_key: label"), [&](const Config& config) {
        EvalEnv env;
        env.name = "e";
        env.batch_size = 2;
        env.data.labels_are_numbers = true;
        env.data.classes = classes;
        return Evaluator::Registry::make("regression", config, {}, env)->probe(2);
      });
    });
  };
  CHECK(refused(ClassNames{}).empty());
  // An evaluator such as knn, whose data has classes of its own.
  CHECK(refused(std::nullopt) ==
        "error: train row 1: the label is -19, but class numbers begin at 0 (in " +
            (folder / "d.npz") + ")");
}

TEST_CASE("regression refuses labels that do not fit") {
  const TempFolder folder;
  const std::string wide = store_logits(folder, noise({3, 1}, 1), noise({3, 2}, 2), "wide.npz");
  CHECK(refusal("regression", npz_config(wide, "batch_size: 2")) ==
        "error: evaluator 'e': the model has 1 outputs but 'labels' 2 numbers");
  const std::string whole = store_logits(folder, noise({3, 1}, 1), at::arange(3), "whole.npz");
  CHECK(refusal("regression", npz_config(whole, "batch_size: 2")).empty());
  const std::string table =
      store_logits(folder, noise({3, 1}, 1), noise({3, 2, 2}, 2), "table.npz");
  CHECK(
      refusal("regression", npz_config(table, "batch_size: 2")) ==
      "error: evaluator 'e': 'labels' must be numbers, (n) or (n, targets), not float32 (1, 2, 2)");
  CHECK(refusal("regression", npz_config(wide, "label_key: age")) ==
        "error: evaluator 'e': pp gives no 'age' (it gives _mask, image, labels, logits); see "
        "keep(\"image\", \"age\")");
}

}  // namespace
}  // namespace bv::test
