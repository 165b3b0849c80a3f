// The key `profile`: the trace of a run, with the real binary.
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "lib/util/file.h"
#include "test/e2e/bad_input.h"
#include "test/support/binary.h"

namespace bv::test {
namespace {

const char* const kProfiledConfig = R"(
num_classes: 10
total_steps: 6
precision: float32
input:
  data: {name: digits, split: train}
  batch_size: 64
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [32, 32], dense: 256}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.003
log_training_steps: 2
ckpt_steps: 4
bucket_mb: 0.05
profile: {first_step: 3, steps: 2}
evals:
  test: {type: classification, data: {name: digits, split: "test[:32]"}, log_steps: 4, batch_size: 32, loss_name: softmax_xent,
         pp_fn: 'value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")'}
)";

struct Span {
  double begin, end;  // microseconds
};
using Spans = std::multimap<std::string, Span>;

// Returns all spans of a trace by name. Separate begin and end events are joined.
Spans read_trace(const std::string& file) {
  Spans spans;
  std::map<std::string, double> begun;
  const auto trace = nlohmann::json::parse(read_file(file));
  for (const auto& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph"), name = event.at("name");
    if (phase == "M") continue;
    const double time = event.at("ts");
    if (phase == "X") {
      spans.insert({name, {time, time + event.at("dur").get<double>()}});
      continue;
    }
    const std::string id = event.at("id2").at("local");
    if (phase == "b")
      begun[id] = time;
    else
      spans.insert({name, {begun.at(id), time}});
  }
  return spans;
}

std::vector<Span> all(const Spans& spans, const std::string& name) {
  std::vector<Span> found;
  for (auto [at, end] = spans.equal_range(name); at != end; ++at) found.push_back(at->second);
  return found;
}

}  // namespace

TEST_CASE("profile: each rank writes where its steps' time went") {
  TempFolder dir;
  write(dir / "c.yaml", kProfiledConfig);
  const Finished finished =
      run({"--config", dir / "c.yaml", "--workdir", dir / "w", "--devices", "cpu:2"});
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  std::smatch sent;
  CHECK(std::regex_search(
      finished.err, sent,
      std::regex(R"(profile: 2 steps, median [\d.]+ ms per step, .* sent per step)")));
  CHECK(std::regex_search(finished.err,
                          std::regex(R"(overlap: \d+% of communication ran during backward\n)")));
  for (const int rank : {0, 1}) {
    const Spans spans = read_trace(dir / "w/trace/rank-" + std::to_string(rank) + ".json");
    for (const char* name : {"wait for data", "forward", "backward", "optimizer", "control word",
                             "gradients 0", "wait for gradients 0", "gradients 1"}) {
      INFO(name);
      CHECK(spans.count(name) == 2);
    }
    CHECK(spans.count("step 2") == 0);
    REQUIRE(spans.count("step 3") == 1);
    REQUIRE(spans.count("step 4") == 1);
    CHECK(spans.count("step 5") == 0);
    CHECK(spans.count("evaluation test") == 1);  // of step 4
    CHECK(spans.count("checkpoint snapshot") == (rank == 0 ? 1 : 0));
    const auto backward = all(spans, "backward"), first = all(spans, "gradients 0");
    const Span step = all(spans, "step 4")[0];
    for (size_t i = 0; i < backward.size(); ++i) {
      // The bucket of the last layers is full and is sent while the backward pass continues.
      CHECK(first[i].begin > backward[i].begin);
      CHECK(first[i].begin < backward[i].end);
      CHECK(all(spans, "forward")[i].end <= backward[i].begin);
      CHECK(backward[i].end <= all(spans, "optimizer")[i].begin);
    }
    CHECK(step.begin <= backward[1].begin);
    CHECK(all(spans, "evaluation test")[0].end <= step.end);
  }
}

TEST_CASE("profile: without a group; off without the key; removed by --cleanup") {
  TempFolder dir;
  write(dir / "c.yaml", kProfiledConfig);
  const Finished one = run({"--config", dir / "c.yaml", "--workdir", dir / "one"});
  INFO(one.err);
  REQUIRE(one.code == 0);
  CHECK(one.err.find("overlap: ") == std::string::npos);
  CHECK(one.err.find("sent per step") == std::string::npos);
  CHECK(read_trace(dir / "one/trace/rank-0.json").count("backward") == 2);

  const Finished off =
      run({"--config", dir / "c.yaml", "--workdir", dir / "off", "--set", "profile=null"});
  REQUIRE(off.code == 0);
  CHECK_FALSE(exists(dir / "off/trace"));
  CHECK(off.err.find("profile:") == std::string::npos);

  // A run that resumes after the profiled steps says so.
  write(dir / "c.yaml", replaced(kProfiledConfig, "total_steps: 6", "total_steps: 8"));
  const Finished on =
      run({"--config", dir / "c.yaml", "--workdir", dir / "off", "--accept-changes"});
  REQUIRE(on.code == 0);
  CHECK(on.err.find("profile: the run starts after step 3; nothing is recorded") !=
        std::string::npos);
  CHECK_FALSE(exists(dir / "off/trace"));

  const Finished clean = run({"--config", dir / "c.yaml", "--workdir", dir / "gone", "--cleanup"});
  REQUIRE(clean.code == 0);
  CHECK_FALSE(exists(dir / "gone"));
}

TEST_CASE("profile: impossible values are refused") {
  Bad bad;
  const auto with = [&](const std::string& value) {
    return bad.line(replaced(kProfiledConfig, "{first_step: 3, steps: 2}", value));
  };
  CHECK(with("{first_step: 0}") ==
        "c.yaml:17:23: error: profile.first_step: steps count from 1, got 0\n");
  CHECK(with("{first_step: 7}") ==
        "c.yaml:17:23: error: profile.first_step: 7 is after the last step, 6\n");
  CHECK(with("{first_step: 1, steps: 0}") ==
        "c.yaml:17:33: error: profile.steps: must be between 1 and 1000, got 0\n");
  CHECK(with("{}") == "c.yaml:17:10: error: profile.first_step: 10 is after the last step, 6\n");
  CHECK(with("{step: 3}").find("error: unknown key 'profile.step'") != std::string::npos);
}

}  // namespace bv::test
