// classification: the reference's sums and means, examples with several or no labels; and
// calibration.
#include "test/evals/support.h"
#include "test/support/golden.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

TEST_CASE("classification equals the reference's, with padding and unlabelled rows") {
  const std::string file = golden_file("classification.npz");
  if (file.empty()) return;
  const NamedTensors golden = read_npz(file);
  const TempFolder folder;
  for (const std::string loss : {"sigmoid_xent", "softmax_xent"}) {
    std::vector<at::Tensor> logits, labels;
    for (int b = 0; b < 3; ++b) {
      const std::string batch = fmt::format("batch{}/", b);
      const at::Tensor keep = golden.at(batch + "_mask").nonzero().squeeze(1);
      logits.push_back(golden.at(batch + "logits").index_select(0, keep));
      labels.push_back(golden.at(batch + "labels").index_select(0, keep));
      const Measured one =
          measure("classification",
                  npz_config(store_logits(folder, logits[b], labels[b]), "loss_name: " + loss));
      const at::Tensor sums = golden.at(batch + loss + "/ncorrect_loss_nseen").to(at::kDouble);
      CHECK(one.at("prec@1") == (sums[0] / sums[2]).item<double>());
      CHECK(one.at("loss") == Approx((sums[1] / sums[2]).item<double>()).epsilon(2e-6));
    }
    const std::string all = store_logits(folder, at::cat(logits), at::cat(labels));
    for (const int batch_size : {8, 1, 7, 64}) {
      const Measured total =
          measure("classification",
                  npz_config(all, fmt::format("loss_name: {}, batch_size: {}", loss, batch_size)));
      CHECK(total.names() == std::vector<std::string>{"prec@1", "loss"});  // prec@5 of 5 classes: 1
      CHECK(static_cast<float>(total.at("prec@1")) == golden.at(loss + "/prec@1").item<float>());
      CHECK(total.at("loss") == Approx(golden.at(loss + "/loss").item<double>()).epsilon(2e-6));
    }
  }
}

TEST_CASE("of several labels each counts as right; an example without labels is left out") {
  const TempFolder folder;
  const at::Tensor logits = at::tensor({9., 1., 0., 1., 9., 0., 0., 1., 9., 9., 1., 0., 5., 5., 0.})
                                .to(at::kFloat)
                                .view({5, 3});
  const at::Tensor labels = at::tensor({1., 1., 0., 1., 1., 0., 1., 1., 0., 0., 0., 0., 1., 0., 0.})
                                .to(at::kFloat)
                                .view({5, 3});
  const std::string file = store_logits(folder, logits, labels);
  // Right, right, wrong, left out, right (the first class of equal logits).
  const Measured measured =
      measure("classification", npz_config(file, "loss_name: softmax_xent, label_key: labels"));
  CHECK(measured.at("prec@1") == 0.75);
  const at::Tensor loss = -(labels * logits.log_softmax(1)).sum(1).to(at::kDouble);
  CHECK(measured.at("loss") == Approx((loss.sum() / 4).item<double>()).epsilon(1e-6));

  // A label's weight is the weight of its example.
  const std::string weighted = store_logits(folder, logits, labels * 0.5);
  CHECK(measure("classification", npz_config(weighted, "loss_name: softmax_xent")).at("prec@1") ==
        0.375);

  const std::string none = store_logits(folder, logits, labels * 0);
  CHECK(std::isnan(
      measure("classification", npz_config(none, "loss_name: softmax_xent")).at("prec@1")));
}

TEST_CASE("the report agrees with prec@1: a guess with the largest label is right") {
  const TempFolder folder;
  const at::Tensor logits =
      at::tensor({9., 1., 0., 1., 9., 0., 0., 1., 9., 9., 1., 0.}).to(at::kFloat).view({4, 3});
  const at::Tensor labels =
      at::tensor({1., 1., 0., 1., 1., 0., 1., 1., 0., 0., 0., 0.}).to(at::kFloat).view({4, 3});
  const Measured several =
      measure("classification",
              npz_config(store_logits(folder, logits, labels), "loss_name: sigmoid_xent"));
  CHECK(several.at("prec@1") == Approx(2 / 3.));
  const EvalDetails& shown = several.details.at(0);
  CHECK(shown.confusion == std::vector<std::vector<int64_t>>{{1, 0, 1}, {0, 1, 0}, {0, 0, 0}});
  REQUIRE(shown.wrong.size() == 1);
  CHECK(shown.wrong[0].index == 2);

  const std::string smoothed = store_logits(folder, at::eye(3).flip(0), at::eye(3) * 0.89 + 0.01);
  CHECK(measure("classification", npz_config(smoothed, "loss_name: softmax_xent"))
            .details.at(0)
            .wrong.size() == 2);
}

TEST_CASE("of equal logits the lowest classes are the five best") {
  const TempFolder folder;
  const at::Tensor labels = at::eye(10, at::kFloat);
  const std::string tied = store_logits(folder, at::zeros({10, 10}), labels);
  const Measured all = measure("classification", npz_config(tied, "loss_name: softmax_xent"));
  CHECK(all.at("prec@1") == Approx(0.1));
  CHECK(all.at("prec@5") == Approx(0.5));
  // Class 9 is ahead of nine equal ones: 9, 0, 1, 2 and 3.
  at::Tensor logits = at::zeros({10, 10});
  logits.select(1, 9).fill_(1);
  const Measured ahead = measure("classification", npz_config(store_logits(folder, logits, labels),
                                                              "loss_name: softmax_xent"));
  CHECK(ahead.at("prec@1") == Approx(0.1));
  CHECK(ahead.at("prec@5") == Approx(0.5));
}

TEST_CASE("the report shows wrong examples, without a picture if theirs cannot be decoded") {
  const TempFolder folder;
  NamedTensors data = {{"image", at::arange(180, at::kByte).view({3, 4, 5, 3})},
                       {"logits", at::eye(3).flip(0)},
                       {"labels", at::eye(3)}};
  write_npz(folder / "d.npz", data);
  const auto mistakes = [&] {
    const Measured measured =
        measure("classification", npz_config(folder / "d.npz", "loss_name: softmax_xent"));
    CHECK(measured.at("prec@1") == Approx(1. / 3));
    return measured.details.at(0).wrong;
  };
  auto wrong = mistakes();
  REQUIRE(wrong.size() == 2);  // in any order: equally confident except for rounding
  CHECK(std::min(wrong[0].name, wrong[1].name) == "train row 0");
  CHECK(std::max(wrong[0].name, wrong[1].name) == "train row 2");
  CHECK(wrong[1].pixels.size() == 60);
  data["image"] = data["image"].flatten(1);  // like an encoded image, which these bytes are not
  write_npz(folder / "d.npz", data);
  wrong = mistakes();
  REQUIRE(wrong.size() == 2);
  CHECK(wrong[0].pixels.empty());
  CHECK(wrong[1].pixels.empty());
}

TEST_CASE("how sure a mistake is follows the loss, as the probabilities of predict do") {
  const TempFolder folder;
  const std::string file = store_logits(folder, at::eye(3).flip(0), at::eye(3));
  const auto surest = [&](const std::string& loss, const std::string& of_run) {
    EvalEnv env;
    env.name = "e";
    env.batch_size = 16;
    env.loss = of_run;
    const auto evaluator =
        from_yaml(npz_config(file, "loss_name: " + loss), [&](const Config& config) {
          return Evaluator::Registry::make("classification", config, {}, env);
        });
    return measure(*evaluator).details.at(0).wrong.at(0).confidence;
  };
  const double sigmoid = 1 / (1 + std::exp(-1.)), softmax = 1 / (1 + 2 * std::exp(-1.));
  CHECK(surest("sigmoid_xent", "") == Approx(sigmoid));
  CHECK(surest("softmax_xent", "") == Approx(softmax));
  CHECK(surest("softmax_xent", "sigmoid_xent") == Approx(sigmoid));
  CHECK(surest("sigmoid_xent", "softmax_xent") == Approx(softmax));
}

TEST_CASE("wrong labels are refused") {
  const TempFolder folder;
  const std::string file = store_logits(folder, noise({3, 4}, 1), noise({3, 5}, 1));
  CHECK(refusal("classification", npz_config(file, "loss_name: softmax_xent")) ==
        "error: evaluator 'e': logits have shape (3, 4) but 'labels' has (3, 5)");
  CHECK(refusal("classification", npz_config(file, "loss_name: softmax_xent, label_key: real")) ==
        "error: evaluator 'e': pp gives no 'real' (it gives _mask, image, labels, logits); see "
        "onehot(..., key_result=\"labels\") and keep(...)");
  CHECK(refusal("classification", npz_config(file, "label_key: labels")) ==
        "t.yaml: error: loss_name: missing: a string is required");
  CHECK_THAT(refusal("classification", npz_config(file, "loss_name: softmax_xen")),
             Catch::Contains("unknown loss 'softmax_xen' (did you mean 'softmax_xent'?)"));
}

TEST_CASE("labels of one class are refused where each example has one class") {
  const TempFolder folder;
  const std::string file =
      store_logits(folder, noise({6, 1}, 1), (at::arange(6) % 2).to(at::kFloat).view({6, 1}));
  const std::string message =
      "error: evaluator 'e': 'labels' has only one class, so every prediction would be right; use "
      "class_metrics with multilabel: true, which counts the images without the class too";
  CHECK(refusal("classification", npz_config(file, "loss_name: sigmoid_xent")) == message);
  CHECK(refusal("calibration", npz_config(file, "bins: 5")) == message);
  CHECK(refusal("class_metrics", npz_config(file, "metrics: [accuracy]")) == message);
  CHECK(refusal("class_metrics", npz_config(file, "metrics: [accuracy], soft_labels: true")) ==
        message);
  CHECK(
      refusal("class_metrics", npz_config(file, "metrics: [accuracy], multilabel: true")).empty());
}

TEST_CASE("the number of examples without a class is logged once") {
  const TempFolder folder;
  const at::Tensor labels = at::eye(3).index_select(0, at::tensor({0, 1, 2, 0, 1}, at::kLong));
  labels[1].fill_(0);
  labels[4].fill_(0);
  const std::string file = store_logits(folder, noise({5, 3}, 1), labels);
  const auto log_of = [&](const std::string& type, const std::string& keys) {
    return logged([&] {
      const auto evaluator = make_evaluator(type, npz_config(file, keys));
      measure(*evaluator);
      measure(*evaluator);
    });
  };
  const std::string line =
      "2 of the 5 examples of evals.e have no class and do not count; class_metrics with "
      "multilabel: true counts such examples";
  for (const auto& [type, keys] :
       {std::pair("classification", "loss_name: softmax_xent"), std::pair("calibration", "bins: 5"),
        std::pair("class_metrics", "metrics: [accuracy]"),
        std::pair("class_metrics", "metrics: [accuracy], soft_labels: true")}) {
    INFO(type << " " << keys);
    const std::string log = log_of(type, keys);
    CHECK_THAT(log, Catch::Contains(line));
    CHECK(log.find(line) == log.rfind(line));
  }
  CHECK(log_of("class_metrics", "metrics: [accuracy], multilabel: true").find("no class") ==
        std::string::npos);
}

TEST_CASE("calibration: bins (lo, hi], ece, mce") {
  const TempFolder folder;
  // Two classes; p is the probability of the predicted one.
  const std::vector<double> p = {0.6, 0.61, 0.59, 0.8, 0.95, 0.99};
  const std::vector<bool> right = {true, false, false, true, true, false};
  at::Tensor logits = at::zeros({6, 2}), labels = at::zeros({6, 2});
  for (int i = 0; i < 6; ++i) {
    logits[i][0] = std::log(p[i] / (1 - p[i]));
    labels[i][right[i] ? 0 : 1] = 1;
  }
  const std::string file = store_logits(folder, logits, labels);
  const Measured measured = measure("calibration", npz_config(file, "bins: 10"));
  CHECK(measured.names() == std::vector<std::string>{"ece", "mce", "confidence", "prec@1"});
  CHECK(measured.at("prec@1") == 0.5);
  CHECK(measured.at("confidence") == Approx((0.6 + 0.61 + 0.59 + 0.8 + 0.95 + 0.99) / 6));
  // (0.6, 0.7]: 0.61 wrong. (0.9, 1]: 0.95 correct, 0.99 wrong. 0.6 and 0.8 are on the border of
  // two bins, and float32 rounding decides which: only the sum of both bins is certain.
  const auto& bins = measured.details.at(0).calibration;
  REQUIRE(bins.size() == 10);
  CHECK(bins[5].examples + bins[6].examples == 3);
  CHECK(bins[7].examples + bins[8].examples == 1);
  CHECK(bins[9].examples == 2);
  CHECK(bins[9].accuracy == 0.5);
  CHECK(bins[9].confidence == Approx(0.97));
  double ece = 0, mce = 0;
  for (const auto& bin : bins) {
    ece += bin.examples / 6 * std::abs(bin.accuracy - bin.confidence);
    if (bin.examples > 0) mce = std::max(mce, std::abs(bin.accuracy - bin.confidence));
  }
  CHECK(measured.at("ece") == Approx(ece));
  CHECK(measured.at("mce") == Approx(mce));
  CHECK(measure("calibration", npz_config(file, "bins: 1")).at("ece") ==
        Approx(std::abs(0.5 - measured.at("confidence"))));
  CHECK(measure("calibration", npz_config(file, "")).details.at(0).calibration.size() == 15);
}

TEST_CASE("calibration: the errors and the confidence of a model that predicts NaN are NaN") {
  const TempFolder folder;
  for (const int64_t good : {4, 0}) {
    at::Tensor logits = noise({5, 3}, 6);
    logits.slice(0, good).fill_(std::nan(""));
    const at::Tensor labels = at::one_hot(at::arange(5) % 3, 3).to(at::kFloat);
    const Measured measured =
        measure("calibration", npz_config(store_logits(folder, logits, labels), ""));
    for (const char* name : {"ece", "mce", "confidence"}) {
      INFO(name << ", " << good << " good examples");
      CHECK(std::isnan(measured.at(name)));
    }
  }
}

TEST_CASE("the calibration error of a calibrated model is near 0; sigmoid; refused keys") {
  const TempFolder folder;
  const int64_t n = 20000;
  const at::Tensor logits = noise({n, 4}, 3);
  const at::Tensor guess =
      at::multinomial(logits.softmax(1), 1, false, at::detail::createCPUGenerator(4)).squeeze(1);
  const std::string file = store_logits(folder, logits, at::one_hot(guess, 4).to(at::kFloat));
  const Measured measured = measure("calibration", npz_config(file, "batch_size: 512"));
  CHECK(measured.at("ece") < 0.02);
  // Soft labels whose largest shares belong to the same classes.
  const at::Tensor sure = at::rand({n, 1}, at::detail::createCPUGenerator(5)) * 0.4 + 0.6;
  const at::Tensor soft = at::one_hot(guess, 4).to(at::kFloat) * (sure - (1 - sure) / 3);
  const std::string smooth = store_logits(folder, logits, soft + (1 - sure) / 3);
  const Measured smoothed = measure("calibration", npz_config(smooth, "batch_size: 512"));
  for (const char* name : {"ece", "mce", "confidence", "prec@1"})
    CHECK(smoothed.at(name) == measured.at(name));
  // Smoothing gives the same label to every class of an example without a class.
  const std::string without = store_logits(
      folder, at::cat({logits, logits}), at::cat({soft + (1 - sure) / 3, at::full({n, 4}, 0.01)}));
  CHECK(measure("calibration", npz_config(without, "batch_size: 512")).at("ece") ==
        measured.at("ece"));
  // Equal fractions that add up to 1 are a tie, in which each guess is right.
  const std::string ties = store_logits(folder, at::cat({logits, logits}),
                                        at::cat({soft + (1 - sure) / 3, at::full({n, 4}, 0.25)}));
  CHECK(measure("calibration", npz_config(ties, "batch_size: 512")).at("prec@1") ==
        Approx((measured.at("prec@1") + 1) / 2));
  CHECK(measure("calibration", npz_config(file, "batch_size: 512, probabilities: sigmoid"))
            .at("ece") > 0.05);
  CHECK_THAT(refusal("calibration", npz_config(file, "bins: 0")),
             Catch::Contains("bins: must be within 1 .. 10000, got 0"));
}

}  // namespace
}  // namespace bv::test
