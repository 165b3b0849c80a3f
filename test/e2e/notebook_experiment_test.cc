// The experiment in the reference's notebook: a CNN on Fashion-MNIST, a batch of 256 over eight
// devices, the loss of each epoch, and predictions next to the labels of the first ten test images.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

// Returns the points of the report's chart "Training loss per epoch".
std::map<int, double> losses_by_epoch(const std::string& report) {
  std::map<int, double> losses;
  size_t at = report.find("Training loss per epoch");
  REQUIRE(at != std::string::npos);
  const size_t end = report.find("</svg>", at);
  while ((at = report.find("<title>", at)) < end) {
    at += 7;
    int epoch = 0;
    double loss = 0;
    char colon = 0;
    std::istringstream(report.substr(at, end - at)) >> epoch >> colon >> loss;
    if (colon == ':') losses[epoch] = loss;
  }
  return losses;
}

}  // namespace

TEST_CASE("the notebook's experiment on eight processes") {
  const std::string data = shared_file("data/fashion-mnist-3600");
  if (data.empty()) return;
  TempFolder dir;
  const std::string config = source_file("configs/fashion_mnist_cnn.yaml");
  const Environment here = {{"FASHION_MNIST_DIR", data}};
  const Finished trained = run({"--config", config, "--devices", "cpu:8", "--workdir", dir / "w",
                                "--set", "total_epochs=2", "--set", "precision=float32"},
                               here);
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(trained.err.find("rank 0 of 8") != std::string::npos);
  CHECK(trained.err.find("Global batch 256; 3000 training examples") != std::string::npos);

  // 2 epochs of 3,000 images are 23 steps. The loss of an epoch in the report is the mean over its
  // steps: 12 in the first. The chart has four digits.
  std::map<int, std::pair<double, int>> sums;
  for (const TextRow& row : metric_rows(dir / "w")) {
    if (!row.count("training_loss")) continue;
    auto& [sum, steps] = sums[(std::stoi(row.at("step")) - 1) / 12 + 1];
    sum += std::stod(row.at("training_loss"));
    ++steps;
  }
  REQUIRE(sums.size() == 2);
  CHECK(sums[1].second == 12);
  CHECK(sums[2].second == 11);
  const auto losses = losses_by_epoch(read_file(dir / "w/report.html"));
  REQUIRE(losses.size() == 2);
  for (const auto& [epoch, sum] : sums)
    CHECK(losses.at(epoch) == Approx(sum.first / sum.second).epsilon(1e-3));
  CHECK(losses.at(2) < losses.at(1));

  const std::vector<std::string> predict = {"predict", "--workdir", dir / "w",
                                            "--eval",  "test",      "--first"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), predict.begin(), predict.end());
    const Finished finished = run(more, here);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished.out;
  };
  const std::vector<std::string> lines = split(with({"10"}), '\n');
  REQUIRE(lines.size() == 12);  // the last one is empty
  const std::vector<std::string> names = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                          "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                          "Bag",         "Ankle boot"};
  with({"10", "--output", dir / "p.jsonl", "--top", "1"});
  const std::vector<std::string> rows = split(read_file(dir / "p.jsonl"), '\n');
  const int labels[] = {6, 3, 2, 9, 2, 8, 6, 3, 1, 0};  // as the file has them
  int right = 0;
  for (size_t i = 0; i < 10; ++i) {
    INFO(lines[i]);
    const auto row = nlohmann::json::parse(rows.at(i));
    const int guess = row.at("top").at(0).at("index");
    CHECK(row.at("label").at("index") == labels[i]);
    CHECK(row.at("label").at("class") == names[static_cast<size_t>(labels[i])]);
    const auto name = [&](int index) {
      return fmt::format("{} {}", index, names[static_cast<size_t>(index)]);
    };
    CHECK(lines[i].starts_with(fmt::format("test row {}   label {} ", i, name(labels[i]))));
    CHECK(lines[i].find(fmt::format("   predicted {} ", name(guess))) != std::string::npos);
    right += guess == labels[i];
  }
  CHECK(lines[10] == fmt::format("{} of 10 are right", right));

  // Over all test images, predict has as many correct predictions as the evaluator.
  const std::vector<std::string> all = split(with({"100000"}), '\n');
  REQUIRE(all.size() == 602);
  const double accuracy = std::stod(metric_rows(dir / "w").back().at("test/prec@1"));
  CHECK(all[600] == fmt::format("{} of 600 are right", std::llround(600 * accuracy)));
}

TEST_CASE("predict takes an evaluator's data, and refuses what it cannot use") {
  TempFolder dir;
  const std::string config = source_file("configs/digits_cnn.yaml");
  REQUIRE(run({"--config", config, "--workdir", dir / "w", "--set", "total_epochs=null", "--set",
               "total_steps=2"})
              .code == 0);
  const auto predict = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", "--workdir", dir / "w"});
    return run(more);
  };
  const Finished three = predict({"--eval", "test", "--first", "3"});
  CHECK(three.code == 0);
  CHECK_THAT(three.out, Catch::Matches(R"((test row [012]   label \d \d   predicted \d \d   )"
                                       R"([01]\.\d{3}\n){3}[0-3] of 3 are right\n)"));
  // The number of examples is not a multiple of the batch size.
  const Finished some = predict(
      {"--eval", "test", "--first", "7", "--batch-size", "3", "--output", dir / "some.jsonl"});
  CHECK(some.code == 0);
  CHECK(split(read_file(dir / "some.jsonl"), '\n').size() == 8);

  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{"--eval", "tset"},
       "--eval tset: error: unknown evaluator 'tset' (did you mean 'test'?); known: test\n"},
      {{}, "bvtrain predict: error: give images, or --eval NAME for an evaluator's data\n"},
      {{"--eval", "test", "--input", "x.png"},
       "--eval test: error: takes the evaluator's data; give no images with it\n"},
      {{"--eval", "test", "--outputs", "image"}, "--outputs image: error: needs --output F.npz\n"},
      {{"--eval", "test", "--first", "0"},
       "bvtrain: error: --first: '0' is not an integer from 1 to 1073741824\n"}};
  for (const auto& [args, line] : refused) {
    const Finished finished = predict(args);
    CHECK(finished.code == 2);
    CHECK(finished.err == line);
    CHECK(finished.out.empty());
  }
}

}  // namespace bv::test
