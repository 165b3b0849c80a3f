// The key nan: a non-finite step is skipped, or ends the run.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "lib/train/step/bad_step.h"
#include "lib/util/file.h"
#include "test/support/child.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

const std::string kSkippingAdam =
    "{optax_name: scale_by_adam, lr: 0.01, wd: 0.001, ema: {decay: 0.9}, nan: skip";

Batch bad_batch(int64_t step, double value) {
  Batch batch = tiny_batch(step);
  batch.at("image")[3].fill_(value);
  return batch;
}

// The differences between two states.
std::vector<std::string> changed(const NamedTensors& a, const NamedTensors& b) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a) {
    if (!tensor.equal(b.at(name))) names.push_back(name);
  }
  return names;
}

}  // namespace

TEST_CASE("nan: skip leaves weights, averages, buffers and optimizer as they were") {
  for (const double value : {std::nan(""), HUGE_VAL}) {
    TinyRun run(kSkippingAdam + "}");
    run.run(1, 4);
    const NamedTensors before = run.step->state();
    run.step->run(5, bad_batch(5, value), /*measure=*/true);
    CHECK(run.step->skipped() ==
          "the loss is nan; 4 of 4 gradients are not finite, such as that of 'head/kernel'");
    CHECK(changed(run.step->state(), before) == std::vector<std::string>{"opt/count"});
    CHECK(run.step->count() == 5);
    CHECK(run.step->non_finite().empty());
    std::map<std::string, double> values;
    for (const auto& [name, measured] : run.step->measurements(5)) values[name] = measured;
    CHECK(std::isnan(values.at("training_loss")));
    CHECK(values.at("l2_updates") == 0);
    double squares = 0;
    for (const auto& [name, tensor] : before) {
      if (name.starts_with("params/")) squares += tensor.square().sum().item<double>();
    }
    CHECK(values.at("l2_params") == Approx(std::sqrt(squares)).epsilon(1e-6));
    // The next steps are as usual.
    run.run(6, 7);
    CHECK(run.step->skipped().empty());
    CHECK(changed(run.step->state(), before).size() == before.size());
  }
}

TEST_CASE("nan: skip changes no step that is finite") {
  TinyRun skip(kSkippingAdam + "}"),
      stop(kSkippingAdam.substr(0, kSkippingAdam.find(", nan")) + "}");
  skip.run(1, 10);
  stop.run(1, 10);
  CHECK(changed(skip.step->state(), stop.step->state()).empty());
  CHECK(skip.step->measurements(10) == stop.step->measurements(10));
}

TEST_CASE("nan: stop says at which step, and where") {
  TinyRun run("{optax_name: sgd, lr: 0.01}");
  run.run(1, 2);
  run.step->run(3, bad_batch(3, std::nan("")), /*measure=*/false);
  run.run(4, 5);
  CHECK(run.step->non_finite() == "training_loss");
  CHECK(run.step->first_non_finite() ==
        "first at step 3: 4 of 4 gradients are not finite, such as that of 'head/bias'");
  CHECK(run.step->skipped().empty());
}

TEST_CASE("directions that an optimizer makes of finite gradients are not called gradients") {
  // The gradients of the first input's weights are 0. The ratio of their mean square, which is eps,
  // to that of the others is 0 in float32, and 0 / sqrt(0) is NaN.
  TinyRun run("{optax_name: scale_by_adafactor, optax: {min_dim_size_to_factor: 1}, lr: 0.01}");
  Batch batch = tiny_batch(1);
  batch.at("image").mul_(1e15).select(1, 0).select(1, 0).select(1, 0).zero_();
  run.step->run(1, batch, /*measure=*/true);
  for (const auto& [name, value] : run.step->measurements(1)) {
    INFO(name);
    CHECK(std::isfinite(value) == (name != "l2_updates" && name != "l2_params"));
  }
  CHECK(run.step->non_finite() == "l2_updates");
  CHECK_THAT(run.step->first_non_finite(),
             Catch::Matches("first at step 1: [1-2] of 4 gradients or update directions are not "
                            "finite, such as that of '(body|head)/kernel'"));
}

TEST_CASE("wrong values of nan and nan_limit") {
  const auto fault = [](const std::string& keys) {
    return error_of([&] { TinyRun run("{optax_name: sgd, lr: 1, " + keys + "}"); });
  };
  CHECK(fault("nan: jump").find("t.yaml:1:31: error: nan: ") == 0);
  CHECK(fault("nan: skip, nan_limit: -1") ==
        "t.yaml:1:48: error: nan_limit: must be at least 0, got -1");
  CHECK(fault("nan: rollback, rollback_examples: 0") ==
        "t.yaml:1:60: error: rollback_examples: must be at least 1, got 0");
}

TEST_CASE("a process that is killed while it replaces a bad step's folder hides neither folder") {
  const TempFolder dir;
  const std::string folder = dir / "post-mortem/step-3";
  const auto write = [&](const std::string& reason) {
    BadStep bad;
    bad.step = 3;
    bad.reason = reason;
    write_bad_step(folder, bad, nullptr);
  };
  const auto reason_in = [](const std::string& path) {
    return nlohmann::json::parse(read_file(path + "/" + kBadStepReport))
        .at("reason")
        .get<std::string>();
  };
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(dir / "post-mortem"))
      all.insert(entry.path().filename().string());
    return all;
  };
  write("first");
  write("second");
  CHECK(names() == std::set<std::string>{"step-3"});
  CHECK(reason_in(folder) == "second");
  const int status = run_in_child([&] {
    ::setenv("BVTRAIN_CRASH_AT", "bad_step.moved_away:1", 1);
    write("third");
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(names() == std::set<std::string>{"step-3.old", "step-3.tmp"});
  CHECK(reason_in(folder + ".old") == "second");
  CHECK(reason_in(folder + ".tmp") == "third");
  write("fourth");
  CHECK(names() == std::set<std::string>{"step-3"});
  CHECK(reason_in(folder) == "fourth");
}

}  // namespace bv::test
