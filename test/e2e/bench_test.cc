// The subcommands of `bvtrain bench` with the real binary.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "lib/device/cuda.h"
#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const char* const kBenchConfig = R"(
num_classes: 10
total_steps: 4
precision: float32
input:
  data: {name: synthetic, size: 64, image_size: 16, classes: 10, encoded: none}
  batch_size: 8
  pp: 'value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")'
model_name: vit
model: {width: 64, depth: 2, mlp_dim: 128, num_heads: 4, patch_size: [4, 4], pool_type: gap}
optax_name: scale_by_adam
lr: 0.001
bucket_mb: 0.05
log_training_steps: 2
profile: {first_step: 3, steps: 2}
)";

// Returns the fields of each row of the table, without its two heading lines.
std::vector<std::vector<std::string>> rows(const std::string& out) {
  std::vector<std::vector<std::string>> all;
  const auto lines = split(out, '\n');
  for (size_t i = 2; i < lines.size(); ++i) {
    std::istringstream words(lines[i]);
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    if (!fields.empty()) all.push_back(fields);
  }
  return all;
}

struct ScalingBench {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  ScalingBench() { write(config, kBenchConfig); }
  Finished scaling(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"bench", "scaling", "--config", config};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }
};

// Returns the amount in "profile: ..., 12.3 KiB sent per step", in MiB.
double sent_mebibytes(const std::string& err) {
  const size_t end = err.find(" sent per step");
  REQUIRE(end != std::string::npos);
  const size_t begin = err.rfind(", ", end) + 2;
  std::istringstream text(err.substr(begin, end - begin));
  double value = 0;
  std::string unit;
  text >> value >> unit;
  return unit == "KiB" ? value / 1024 : value;
}

}  // namespace

TEST_CASE("bench scaling: the bytes are those that a run sends") {
  const ScalingBench f;
  const std::string fsdp =
      "sharding_strategy=[['.*', 'fsdp(axis=\"data\", min_size_to_shard_mb=0.01)']]";
  using Strategy = std::pair<std::string, std::string>;
  for (const auto& [strategy, parts] : {Strategy{"sharding_strategy=replicate", "1"},
                                        {"sharding_strategy=replicate", "2"},
                                        {"sharding_strategy=zero2", "2"},
                                        {fsdp, "1"},
                                        {fsdp, "2"}}) {
    INFO(strategy << " " << parts);
    const std::string accum = "grad_accum_steps=" + parts;
    const Finished predicted =
        f.scaling({"--set", strategy, "--set", accum, "--processes", "1,4", "--compute-ms", "8",
                   "--update-ms", "2", "--bandwidth-gb", "1", "--latency-us", "50"});
    INFO(predicted.err);
    REQUIRE(predicted.code == 0);
    CHECK(predicted.out.starts_with("predicted, not measured: vit, "));
    const auto table = rows(predicted.out);
    REQUIRE(table.size() == 2);
    // Columns: processes, hosts, examples, step, exposed, efficiency, img/s, sent.
    CHECK(table[0] ==
          std::vector<std::string>{"1", "1", "8", "10.000", "0.000", "100.0%", "800.0", "0.00"});
    CHECK(table[1][2] == "2");
    const Finished real =
        run({"--config", f.config, "--set", strategy, "--set", accum, "--devices", "cpu:4"});
    INFO(real.err);
    REQUIRE(real.code == 0);
    CHECK(std::stod(table[1][7]) == Approx(sent_mebibytes(real.err)).epsilon(0.03));
    const Finished dry = run({"--config", f.config, "--set", strategy, "--set", accum, "--devices",
                              "cuda:0,1,2,3", "--dry-run"});
    INFO(dry.out);
    std::smatch sends;  // "each computes 2 examples and sends 12.3 KiB per step"
    REQUIRE(std::regex_search(dry.out, sends, std::regex(" sends ([0-9.]+ [KM]iB) per step")));
    CHECK(sent_mebibytes("profile, " + sends.str(1) + " sent per step") ==
          Approx(sent_mebibytes(real.err)).epsilon(0.03));
  }
}

TEST_CASE("bench scaling: a missing or unfit argument gives one line") {
  const ScalingBench f;
  const auto line = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--bandwidth-gb", "1", "--latency-us", "1"});
    const Finished finished = f.scaling(more);
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    return finished.err;
  };
  CHECK(
      line({}) ==
      "bvtrain bench scaling: error: give --compute-ms or --tflops: how fast a device computes\n");
  CHECK(line({"--compute-ms", "1", "--processes", "3"}) ==
        "--processes 3: error: Batch size (8) must be divisible by device number (3); or give "
        "--examples of one process\n");
  CHECK(line({"--tflops", "1", "--examples", "1", "--processes", "16"}) ==
        "--processes 16: error: several hosts: give --network-gb and --network-us\n");
  const std::string help = run({"bench", "scaling", "--help"}).out;
  CHECK(contains(help, "if --processes, or its default, has a number above --per-host"));
  CHECK(line({"--tflops", "1", "--examples", "3", "--processes", "1,8", "--set",
              "grad_accum_steps=2"}) ==
        "--set grad_accum_steps=2: error: grad_accum_steps: must divide the 3 examples of each "
        "process (batch_size 3 over 1), got 2\n");
  CHECK(line({"--tflops", "1", "--examples", "1", "--processes", "12"}) ==
        "--processes 12: error: is not a multiple of --per-host 8\n");
  CHECK(run({"bench", "--seconds", "1", "scaling", "--config", f.config, "--bandwidth-gb", "1",
             "--latency-us", "1"})
            .err == "--seconds: error: does not apply to bvtrain bench scaling\n");
  CHECK(run({"bench", "scaling", "--config", f.config, "--latency-us", "1"}).err ==
        "bvtrain: error: --bandwidth-gb is required\n");
  if (!has_cuda_driver()) {
    CHECK(run({"bench", "collectives", "--devices", "cuda:0,1"}).err ==
          "--devices cuda:0,1: error: this host has no NVIDIA driver\n");
  }
  for (const char* seconds : {"-1", "nan", "inf"}) {
    CHECK(run({"bench", "--config", f.config, "--seconds", seconds}).err ==
          fmt::format("bvtrain: error: --seconds: '{}' is not a positive number\n", seconds));
  }
  CHECK(line({"--tflops", "0"}) == "bvtrain: error: --tflops: '0' is not a positive number\n");
  CHECK(run({"bench"}).err == "bvtrain bench: error: no --config given; give --config FILE\n");
  CHECK(run({"bench", "collectives", "--devices", "cpu"}).err ==
        "bvtrain bench collectives: error: one process sends nothing; give --devices cpu:N or "
        "cuda:0,1\n");
}

TEST_CASE("bench collectives: a row for each size, and the arguments for bench scaling") {
  const Finished finished = run({"bench", "collectives", "--devices", "cpu:2", "--most-mb", "1"});
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(finished.out.find("all-gather   ms, 2 processes\n         4 ") != std::string::npos);
  CHECK(finished.out.find("\n      1024 ") != std::string::npos);
  CHECK(finished.out.find("\n      4096 ") == std::string::npos);
  // A busy host may hide the difference between small and large messages.
  if (finished.err.find("so latency and bandwidth are not known") == std::string::npos) {
    CHECK(finished.out.find("\n--latency-us ") != std::string::npos);
    CHECK(finished.out.find(" --bandwidth-gb ") != std::string::npos);
  }
}

TEST_CASE("bench memory: what a batch takes, and the largest that fits") {
  const std::vector<std::string> args = {
      "bench", "memory", "--config", source_file("configs/digits_cnn.yaml"), "--devices", "cpu"};
  std::vector<std::string> json = args;
  // With a large batch the two epochs are fewer steps than these.
  json.insert(json.end(), {"--json", "--set", "total_epochs=2", "--set", "schedule.warmup_steps=20",
                           "--set", "profile.first_step=30"});
  const Finished finished = run(json);
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  const auto needs = nlohmann::json::parse(finished.out);
  CHECK(needs.at("parameter_bytes") == needs.at("gradient_bytes"));
  CHECK(needs.at("state_bytes") >= 2 * needs.at("parameter_bytes").get<int64_t>());  // Adam
  CHECK(needs.at("checkpoint_bytes") >= 6 * needs.at("parameter_bytes").get<int64_t>());
  CHECK(needs.at("example_bytes") > 64 * 4);  // more than its pixels
  CHECK(needs.at("example_bytes") < 10e6);
  CHECK(needs.at("largest_batch") == 1437);  // all examples of the data set
  CHECK_FALSE(needs.at("tried").get<bool>());
  CHECK(finished.err.find("The data set has only 1,437 examples") != std::string::npos);
  const auto& peaks = needs.at("peaks");
  REQUIRE(peaks.size() >= 2);
  for (size_t i = 1; i < peaks.size(); ++i)
    CHECK(peaks[i].at("batch") == 2 * peaks[i - 1].at("batch").get<int64_t>());

  // With a batch of one example the warm-up is longer than these 40 steps.
  std::vector<std::string> plain = args;
  plain.insert(plain.end(), {"--set", "total_steps=40", "--set", "schedule.warmup_epochs=1"});
  const Finished text = run(plain);
  CHECK(text.out.find("largest batch: 1437, extrapolated from smaller ones\n") !=
        std::string::npos);
  CHECK(run({"bench", "memory"}).err ==
        "bvtrain bench memory: error: no --config given; give --config FILE\n");
}

TEST_CASE("bench operators: the products of a step are those of the model's formula") {
  const ScalingBench fixture;
  const auto operators = [&](int batch) {
    const Finished finished =
        run({"bench", "operators", "--config", fixture.config, "--devices", "cpu", "--set",
             fmt::format("input.batch_size={}", batch), "--json"});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return nlohmann::json::parse(finished.out).at("operators");
  };
  const auto flops = [](const nlohmann::json& all, bool attention) {
    double sum = 0;
    for (const auto& each : all) {
      const auto name = each.at("operator").get<std::string>();
      if ((name.find("scaled_dot_product") != std::string::npos) == attention)
        sum += each.at("flops").get<double>();
    }
    return sum;
  };
  // 16 patches of 48 numbers; two blocks with 4 dense layers of 64x64 and two of 64x128; the head.
  const double patches = 16 * 48 * 64, blocks = 2 * 16 * (4 * 64 * 64 + 2 * 64 * 128),
               head = 64 * 10;
  const auto few = operators(4), many = operators(8);  // 8: extrapolated from 4 and 2
  // Forward once, backward twice; the patches need no gradient.
  const double product = 2 * (3 * (patches + blocks + head) - patches);
  CHECK(flops(few, false) == 4 * product);
  CHECK(flops(many, false) == 8 * product);
  // Two blocks of 4 heads: 16 x 16 scores over 16 numbers, two products forward, five backward.
  CHECK(flops(many, true) == 8 * 2 * 4 * 2 * (2 + 5) * 16 * 16 * 16);
  for (const auto& each : many) {
    CHECK(each.at("calls") >= 1);
    const auto& seconds = each.at("least_seconds");
    CHECK(seconds.at("H200").get<double>() <= seconds.at("H100").get<double>());
  }

  const Finished text = run({"bench", "operators", "--config", fixture.config, "--devices", "cpu",
                             "--gpu", "A100,RTX 4090"});
  CHECK(text.out.find(" A100, ms RTX 4090, ms\n") != std::string::npos);
  CHECK(text.out.find("\noptimizer ") != std::string::npos);
  CHECK(run({"bench", "operators", "--config", fixture.config, "--gpu", "V100"}).err ==
        "--gpu V100: error: unknown GPU; write it as in H100, H200, A100, L40S, RTX 4090\n");
}

TEST_CASE(
    "BVTRAIN_PLAIN_KERNELS leaves out bvtrain's own kernels, which changes no more than rounding") {
  const TempFolder dir;
  for (const std::string config : {"digits_cnn", "digits_vit"}) {
    std::vector<double> norms;
    for (const std::string plain : {"0", "1"}) {
      const std::string workdir = dir / (config + plain);
      const Finished finished =
          run({"--config", source_file("configs/" + config + ".yaml"), "--workdir", workdir,
               "--set", "total_epochs=null", "--set", "total_steps=5", "--set", "evals=null",
               "--set", "log_training_steps=1", "--set", "precision=float32", "--devices", "cpu"},
              {{"BVTRAIN_PLAIN_KERNELS", plain}});
      INFO(finished.err);
      REQUIRE(finished.code == 0);
      for (const TextRow& row : metric_rows(workdir))
        if (row.contains("l2_grads")) norms.push_back(std::stod(row.at("l2_grads")));
    }
    REQUIRE(norms.size() == 10);
    bool equal = true;
    for (size_t i = 0; i < 5; ++i) {
      CHECK(norms[i] == Approx(norms[i + 5]).epsilon(1e-4));
      equal = equal && norms[i] == norms[i + 5];
    }
    CHECK_FALSE(equal);  // the switch does something
  }
}

}  // namespace bv::test
