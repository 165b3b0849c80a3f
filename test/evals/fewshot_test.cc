// fewshot_lsr: NumPy's permutations, the regression and whole passes compared with big_vision's
// numbers, and the keys.
#include <fstream>
#include <limits>

#include "lib/evals/common/least_squares.h"
#include "lib/evals/common/numpy_rng.h"
#include "test/evals/support.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

std::optional<NamedTensors> golden() {
  const std::string file = golden_file("fewshot.npz");
  if (file.empty()) return std::nullopt;
  return read_npz(file);
}

TEST_CASE("permutations equal NumPy's, for every seed") {
  // np.random.default_rng(seed).permutation(np.arange(12)), NumPy 2
  const std::map<uint64_t, std::vector<int64_t>> expected = {
      {0, {9, 2, 7, 4, 5, 11, 0, 3, 6, 10, 8, 1}},
      {1, {8, 11, 4, 7, 5, 0, 1, 9, 2, 10, 6, 3}},
      {9, {7, 2, 6, 10, 9, 3, 5, 11, 8, 4, 0, 1}},
      {11, {2, 10, 8, 1, 6, 9, 4, 5, 11, 3, 7, 0}},
      {123456, {9, 3, 8, 6, 10, 2, 4, 0, 5, 11, 1, 7}},
      {4294967301, {6, 9, 5, 8, 2, 4, 7, 0, 11, 10, 3, 1}}};  // more than 32 bits
  for (const auto& [seed, permutation] : expected) {
    INFO(seed);
    std::vector<int64_t> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    NumpyRng(seed).permute(values);
    CHECK(values == permutation);
  }
}

TEST_CASE("a sequence of permutations equals NumPy's") {
  // rng = np.random.default_rng(12345)
  // [rng.permutation(np.arange(n)) for n in (0, 1, 2, 7, 10, 3)]
  const std::vector<std::vector<int64_t>> expected = {
      {}, {0}, {0, 1}, {4, 3, 0, 2, 1, 6, 5}, {0, 2, 9, 6, 4, 1, 5, 7, 3, 8}, {0, 2, 1}};
  NumpyRng rng(12345);
  for (const auto& permutation : expected) {
    std::vector<int64_t> values(permutation.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
    rng.permute(values);
    CHECK(values == permutation);
  }
}

TEST_CASE("the selected examples are big_vision's") {
  const auto file = golden();
  if (!file) return;
  for (const int64_t seed : {0, 1, 2}) {
    const auto members = permuted_classes(file->at("y_train").to(at::kLong), 10,
                                          NumpyRng(static_cast<uint64_t>(seed)));
    for (const int64_t shots : {1, 5, 10, 25}) {
      INFO("seed " << seed << ", shots " << shots);
      CHECK(take_shots(members, shots)
                .equal(file->at(fmt::format("idx/seed{}_shot{}", seed, shots)).to(at::kLong)));
    }
  }
}

TEST_CASE("the fit is big_vision's") {
  const auto file = golden();
  if (!file) return;
  const at::Tensor labels = file->at("y_train").to(at::kLong);
  const double l2 = file->at("l2")[-1].item<double>();
  for (const int64_t shots : {1, 5, 10, 25}) {
    INFO("shots " << shots);
    const at::Tensor rows = file->at(fmt::format("idx/seed0_shot{}", shots)).to(at::kLong);
    const LeastSquares fit(file->at("x_train").index_select(0, rows), labels.index_select(0, rows),
                           10);
    const std::string name = fmt::format("shot{}", shots);
    const at::Tensor w = file->at("w/" + name).to(at::kDouble);
    const double worst = (fit.weights(l2) - w).abs().max().item<double>();
    CHECK(worst <= 1e-3 * w.abs().max().item<double>());
  }
}

TEST_CASE("whole passes give big_vision's accuracies, for every l2, number of shots and seed") {
  const auto file = golden();
  if (!file) return;
  const TempFolder folder;
  for (const std::string split : {"train", "test"}) {
    const at::Tensor x = file->at("x_" + split);  // fake_outputs() returns it as "pre_logits"
    write_npz(folder / (split + ".npz"), {{"image", x.reshape({x.size(0), 2, 2, 6})},
                                          {"label", file->at("y_" + split).to(at::kLong)}});
  }
  const auto run = [&](const std::string& l2, int64_t batch_size) {
    return measure(
        "fewshot_lsr",
        fmt::format("{{datasets: {{g: {{train: {{name: npz, fname: '{}'}}, test: {{name: "
                    "npz, fname: '{}'}}}}}}, l2_reg: {}, batch_size: {}, "
                    "representation_layer: pre_logits, display_first: [[g, 10]]}}",
                    folder / "train.npz", folder / "test.npz", l2, batch_size));
  };
  const at::Tensor accuracy = file->at("accuracy");  // (l2, shots, seeds)
  const Measured all = run("[0.0009765625, 1, 1024]", 64);
  REQUIRE(all.values.size() == 36);
  double worst = 0;
  const std::vector<std::string> l2s = {"0.0009765625", "1", "1024"};
  for (int64_t l = 0; l < 3; ++l) {
    const Measured one = run(l2s[l], 7);
    for (int64_t s = 0; s < 4; ++s) {
      for (int64_t seed = 0; seed < 3; ++seed) {
        const int64_t shots = std::vector<int64_t>{1, 5, 10, 25}[s];
        const std::string name =
            fmt::format("{}g_{}shot-seed-{}", shots == 10 ? "a/" : "z/", shots, seed);
        const double value = one.at(name);
        CHECK(value == all.at(name + "-l2-" + l2s[l]));
        worst = std::max(worst, std::abs(value - accuracy[l][s][seed].item<double>()));
      }
    }
  }
  CHECK(worst <= 0.002);  // one of 500
}

TEST_CASE("both forms of the solution agree, and l2 may be 0") {
  const at::Tensor y = at::arange(30, at::kLong).remainder(3);
  for (const int64_t d : {28, 29, 30, 31}) {  // around n = d + 1
    const at::Tensor x = noise({30, d}, 3);
    const LeastSquares fit(x, y, 3);
    const at::Tensor x64 = x.to(at::kDouble);
    const at::Tensor standardised = (x64 - x64.mean(0)) / (x64.std(0, /*unbiased=*/false) + 1e-5);
    const at::Tensor wide = at::cat({standardised, at::full({30, 1}, 100.0)}, 1);
    const at::Tensor target = at::one_hot(y, 3).to(at::kDouble) * 2 - 1;
    for (const double l2 : {0.5, 1024.0}) {
      const at::Tensor w = fit.weights(l2);
      // The gradient of |Xw - Y|^2 + l2 |w|^2 is 0.
      const at::Tensor gradient = wide.t().mm(wide.mm(w) - target) + l2 * w;
      CHECK(gradient.abs().max().item<double>() < 1e-7);
    }
    CHECK(fit.weights(0).isfinite().all().item<bool>());
  }
  // Every feature occurs twice, so X^T X is singular.
  const at::Tensor x = noise({30, 2}, 3).repeat({1, 2});
  const LeastSquares fit(x, y, 3);
  CHECK(fit.weights(0).isfinite().all().item<bool>());
  CHECK(fit.weights(0)[0].allclose(fit.weights(0)[2], 1e-4, 1e-6));
}

TEST_CASE("a class with fewer examples than shots gives all of them, an empty one none") {
  const at::Tensor labels = at::tensor({0, 2, 2, 0, 2}, at::kLong);
  const auto members = permuted_classes(labels, 4, NumpyRng(0));
  CHECK(take_shots(members, 1).size(0) == 2);
  CHECK(take_shots(members, 100).size(0) == 5);
  CHECK(members[1].empty());
}

TEST_CASE("representations that are NaN or infinite are refused with the first example") {
  const TempFolder folder;
  NamedTensors data = examples(20);
  data["image"][4].fill_(std::numeric_limits<float>::infinity());
  data["image"][3].fill_(std::nanf(""));
  write_npz(folder / "n.npz", data);
  write_npz(folder / "d.npz", examples(20));
  const std::string bad = fmt::format("{{name: npz, fname: '{}'}}", folder / "n.npz");
  const std::string good = fmt::format("{{name: npz, fname: '{}'}}", folder / "d.npz");
  const std::string line =
      "error: evaluator 'e': the model's output for train row 3 is NaN or infinite";
  for (const auto& [train, test] : {std::pair(bad, good), std::pair(good, bad)}) {
    CHECK(refusal(
              "fewshot_lsr",
              fmt::format("{{datasets: {{a: {{train: {}, test: {}}}}}, shots: [2]}}", train, test),
              Exit::diverged) == line);
    CHECK(refusal("knn", fmt::format("{{train: {}, data: {}, batch_size: 2}}", train, test),
                  Exit::diverged) == line);
  }
}

TEST_CASE("data sets of which mask_key leaves no example are refused") {
  const TempFolder folder;
  NamedTensors data = examples(20);
  data["keep"] = at::ones({20}, at::kLong);
  write_npz(folder / "d.npz", data);
  data["keep"].zero_();
  write_npz(folder / "n.npz", data);
  const std::string none = fmt::format("{{name: npz, fname: '{}'}}", folder / "n.npz");
  const std::string all = fmt::format("{{name: npz, fname: '{}'}}", folder / "d.npz");
  const auto said = [](const std::string& type, const std::string& keys) {
    return refusal(type, fmt::format("{{{}, mask_key: keep}}", keys));
  };
  const std::string start = "error: evaluator 'e': no example of evals.e",
                    end = " counts (mask_key 'keep')";
  const auto sets = [](const std::string& train, const std::string& test) {
    return fmt::format("shots: [2], datasets: {{a: {{train: {}, test: {}}}}}", train, test);
  };
  CHECK(said("fewshot_lsr", sets(none, all)) == start + ".a.train" + end);
  CHECK(said("fewshot_lsr", sets(all, none)) == start + ".a.test" + end);
  CHECK(said("knn", fmt::format("train: {}, data: {}", none, all)) == start + ".train" + end);
  CHECK(said("knn", fmt::format("train: {}, data: {}", all, none)) == start + end);
}

TEST_CASE("data sets as lists, and what is wrong with them") {
  CHECK(refusal("fewshot_lsr", "{shots: [1]}") ==
        "t.yaml: error: datasets: missing: name: [source, train split, test split] is required");
  CHECK(refusal("fewshot_lsr", "{datasets: {d: [digits, train]}}") ==
        "t.yaml:1:16: error: datasets.d: must be [source, train split, test split]");
  CHECK_THAT(refusal("fewshot_lsr", "{datasets: {d: [digitz, train, test]}}"),
             Catch::StartsWith("t.yaml:1:16: error: datasets.d: unknown data source 'digitz' (did "
                               "you mean 'digits'?)"));
  CHECK_THAT(refusal("fewshot_lsr", "{datasets: {d: [digits, train, tset]}}"),
             Catch::Contains("unknown split 'tset'"));
  CHECK_THAT(refusal("fewshot_lsr", "{data_dir: x, datasets: {d: [digits, train, test]}}"),
             Catch::StartsWith("t.yaml:1:29: error: datasets.d: unknown key 'data_dir'"));
  CHECK_THAT(refusal("fewshot_lsr",
                     "{l2_reg: -1, shots: [0], num_seeds: 0, datasets: {d: [digits, "
                     "train, test]}}"),
             Catch::Contains("l2_reg: must not be negative") &&
                 Catch::Contains("shots: must be positive numbers of examples") &&
                 Catch::Contains("num_seeds: must be positive"));
  CHECK(refusal("fewshot_lsr",
                "{datasets: {d: [digits, 'train[:20]', 'test[:9]']}, representation_layer: tokens, "
                "pp_train: 'resize(2)|value_range(0, 1)', pp_eval: 'resize(2)|value_range(0, 1)'}")
            .starts_with("error: evaluator 'e': representation_layer 'tokens' has shape (10, 4, "));
}

TEST_CASE("keys of fewshot_lsr that have no effect give a warning") {
  const auto warned = [](const std::string& keys) {
    EvalEnv env;
    env.name = "e";
    env.batch_size = 16;
    env.threads = 1;
    const Config config = parse_config("{" + keys +
                                           ", datasets: {d: {train: {name: digits, split: train}, "
                                           "test: {name: digits, split: test}}}}",
                                       "t.yaml");
    Evaluator::Registry::make("fewshot_lsr", config, {}, env);
    throw_problems(config);
    return warnings(config);
  };
  using Lines = std::vector<std::string>;
  CHECK(warned("data_dir: x") ==
        Lines{"t.yaml:1:12: warning: data_dir: has no effect, because no data set is given as a "
              "list"});
  CHECK(warned("shots: [1], display_first: [[d, 7], [d, 1], [e, 1]]") ==
        Lines{"t.yaml:1:29: warning: display_first: 'd' is not measured with 7 shots",
              "t.yaml:1:29: warning: display_first: 'e' is none of the datasets"});
  CHECK(warned("data_dir: ''").empty());
}

TEST_CASE("labels that are missing or are not class numbers are refused") {
  const TempFolder folder;
  NamedTensors data = examples(6);
  write_npz(folder / "d.npz", data);
  data["label"][3] = -2;
  write_npz(folder / "n.npz", data);
  const auto yaml = [&](const std::string& file, const std::string& more) {
    return fmt::format(
        "{{datasets: {{a: {{train: {{name: npz, fname: '{0}'}}, test: {{name: npz, "
        "fname: '{0}'}}}}}}{1}}}",
        folder / file, more);
  };
  CHECK(refusal("fewshot_lsr", yaml("n.npz", "")) ==
        "error: train row 3: the label is -2, but class numbers begin at 0 (in " +
            (folder / "n.npz") + ")");
  CHECK(
      refusal("fewshot_lsr", yaml("d.npz", ", label_key: y")) ==
      "error: evaluator 'e': pp gives no 'y' (it gives _mask, image, label, labels, teacher); see "
      "keep(\"image\", \"label\")");
  CHECK(refusal("fewshot_lsr", yaml("d.npz", ", label_key: labels")) ==
        "error: evaluator 'e': 'labels' is not one class per example, but float32 (1, 5)");
  // probe() refuses it, so that no run begins.
  const auto masked = make_evaluator("fewshot_lsr", yaml("d.npz", ", mask_key: m"));
  CHECK(error_of([&] { masked->probe(1); }) ==
        "error: evaluator 'e': mask_key 'm' is not a feature with one value per example");
}

}  // namespace
}  // namespace bv::test
