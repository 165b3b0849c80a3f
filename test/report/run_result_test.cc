#include "lib/report/run_result.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace bv {
namespace {

MetricSummary metrics() {
  MetricSummary summary;
  summary.add(400, {{"val/prec@1", 0.75}, {"val/loss", 0.5}, {"uptime", 3}});
  summary.add(500, {{"val/prec@1", 0.5},
                    {"val/loss", std::nan("")},
                    {"training_loss", std::numeric_limits<double>::infinity()}});
  return summary;
}

RunResult finished(const MetricSummary& summary) {
  RunResult result;
  result.reason = "finished";
  result.step = result.total_steps = 5000;
  result.metrics = &summary;
  result.wall_seconds = 71.6;
  result.images_per_second = 1234;
  result.precision = "float32";
  result.precision_config = "auto";
  result.report = "/w/report.html";
  return result;
}

}  // namespace

TEST_CASE("result.json holds final and best values, numbers that JSON lacks as strings") {
  const MetricSummary summary = metrics();
  RunResult result = finished(summary);
  result.code = Exit::diverged;
  result.reason = "train: error: \"x\" became \xff";
  const auto json = nlohmann::json::parse(result_json(result));
  CHECK(json.at("status") == "diverged");
  CHECK(json.at("exit_code") == 4);
  CHECK(json.at("reason") == "train: error: \"x\" became \uFFFD");
  CHECK(json.at("main_metric") == "val/prec@1");
  CHECK(json.at("final") == nlohmann::json({{"training_loss", {{"value", "inf"}, {"step", 500}}},
                                            {"val/loss", {{"value", "nan"}, {"step", 500}}},
                                            {"val/prec@1", {{"value", 0.5}, {"step", 500}}}}));
  CHECK(json.at("best").at("val/prec@1") == nlohmann::json({{"value", 0.75}, {"step", 400}}));
  CHECK(json.at("best").at("val/loss") == nlohmann::json({{"value", 0.5}, {"step", 400}}));
  CHECK(json.at("report") == "/w/report.html");
  CHECK(json.at("checkpoint").is_null());
}

TEST_CASE("result.json of a run that measured nothing") {
  RunResult result;
  result.code = Exit::sigterm;
  const auto json = nlohmann::json::parse(result_json(result));
  CHECK(json.at("status") == "stopped");
  CHECK(json.at("main_metric").is_null());
  CHECK(json.at("images_per_second").is_null());
  CHECK(json.at("final") == nlohmann::json::object());
  CHECK(json.at("best") == nlohmann::json::object());
}

TEST_CASE("each exit code has a status") {
  const auto status = [](Exit code) {
    RunResult result;
    result.code = code;
    return nlohmann::json::parse(result_json(result)).at("status").get<std::string>();
  };
  CHECK(status(Exit::ok) == "finished");
  for (const Exit code : {Exit::stopped, Exit::sigint, Exit::sigterm})
    CHECK(status(code) == "stopped");
  for (const Exit code : {Exit::internal, Exit::usage, Exit::data, Exit::storage, Exit::memory})
    CHECK(status(code) == "failed");
}

TEST_CASE("the closing lines") {
  const MetricSummary summary = metrics();
  RunResult result = finished(summary);
  CHECK(closing_lines(result) ==
        std::vector<std::string>{
            "5,000 of 5,000 steps in 1m12s, 1,234 img/s, precision auto (float32)",
            "val/prec@1: best 0.75 at step 400, final 0.5", "Report: /w/report.html"});
  result.first_step = 4000;
  result.images_per_second.reset();
  result.metrics = nullptr;
  result.report.clear();
  result.precision_config = "float32";
  result.no_best = {{"val/loss", "/w/ckpt/best-l"}};
  result.failed_saves = 2;
  result.left_out_saves = 4000;
  CHECK(nlohmann::json::parse(result_json(result)).at("failed_saves") == 2);
  CHECK(nlohmann::json::parse(result_json(result)).at("left_out_saves") == 4000);
  CHECK(closing_lines(result) ==
        std::vector<std::string>{
            "5,000 of 5,000 steps in 1m12s since the restart at step 4,000, precision float32",
            "No /w/ckpt/best-l: val/loss was never a finite number",
            "Checkpoints that could not be written: 2 (see the warnings above)",
            "Checkpoints skipped because they were due too often: 4,000"});
}

TEST_CASE("the hash of a config does not depend on the order of its keys") {
  CHECK(config_hash(R"({"a": 1, "b": {"c": [1, 2], "d": 3}})") ==
        config_hash(R"({"b": {"d": 3, "c": [1, 2]}, "a": 1})"));
  CHECK(config_hash(R"({"a": [1, 2]})") != config_hash(R"({"a": [2, 1]})"));
  CHECK(config_hash("{}").size() == 16);
}

}  // namespace bv
