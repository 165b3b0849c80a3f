// Schedules compared with big_vision's values, and rejected configs.
#include "lib/optim/schedule.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/util/file.h"
#include "test/support/error.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

std::string problems(const std::string& yaml) {
  const Config config = parse_config(yaml, "t.yaml");
  attempt(config, [&] {
    Schedule(config.section("schedule"), {.batch_size = 64, .data_size = 1000, .total_steps = 40});
  });
  return error_of([&] { throw_problems(config); });
}

}  // namespace

TEST_CASE("schedules equal those of big_vision") {
  const auto folder = golden_folder("schedules.npz");
  if (folder.empty()) return;
  const Config all = load_config(folder + "/schedules.json", {});
  const NamedTensors values = read_npz(folder + "/schedules.npz");
  const RunLength length{.batch_size = all.get<int64_t>("batch_size"),
                         .data_size = all.get<int64_t>("data_size"),
                         .total_steps = all.get<int64_t>("total_steps")};
  const auto entries = all.section("schedules").items();
  CHECK(entries.size() == 13);
  for (const auto& [name, config] : entries) {
    INFO(name);
    const Schedule schedule(config, length);
    const at::Tensor expected = values.at(name);
    REQUIRE(expected.numel() == length.total_steps + 1);
    for (int64_t s = 0; s <= length.total_steps; ++s) {
      const double want = expected.const_data_ptr<float>()[s];
      INFO("step " << s);
      CHECK(std::abs(schedule(s) - want) <= 2e-7 + 2e-6 * std::abs(want));
    }
  }
  CHECK(problem_count(all) == 0);
}

// big_vision changes to the next value once an entry of `steps` is below step + 1.
TEST_CASE("stair changes at a fractional step, rounded down") {
  const Config config = parse_config("{steps: [2.5, 4], mults: [0.5, 0.25]}", "t.yaml");
  const Schedule schedule(config, {.batch_size = 8, .data_size = 8, .total_steps = 6});
  CHECK(problem_count(config) == 0);
  const std::vector<float> expected = {1, 1, 0.5F, 0.5F, 0.25F, 0.25F};
  for (size_t s = 0; s < expected.size(); ++s) {
    INFO("step " << s);
    CHECK(schedule(static_cast<int64_t>(s)) == expected[s]);
  }
}

TEST_CASE("the registered decays") {
  CHECK(Decay::Registry::names() ==
        std::vector<std::string>{"cosine", "linear", "polynomial", "rsqrt", "stair"});
}

TEST_CASE("every decay is finite and stays within its bounds over a whole run") {
  for (const std::string& name : Decay::Registry::names()) {
    INFO(name);
    const Config config = parse_config("{decay_type: " + name +
                                           ", mult: 2, warmup_steps: 5, "
                                           "cooldown_steps: 5}",
                                       "t.yaml");
    const Schedule schedule(config, {.batch_size = 8, .data_size = 80, .total_steps = 30});
    CHECK(problem_count(config) == 0);
    CHECK(schedule(0) == 0.0F);
    CHECK(schedule(30) == 0.0F);
    for (int64_t s = 1; s < 30; ++s) {
      CHECK(schedule(s) > 0.0F);
      CHECK(schedule(s) <= 2.0F);
    }
  }
}

TEST_CASE("keys of a schedule that have no effect give a warning") {
  const auto warned = [](const std::string& yaml) {
    const Config config = parse_config(yaml, "t.yaml");
    Schedule(config, {.batch_size = 64, .data_size = 1000, .total_steps = 40});
    return warnings(config);
  };
  using Lines = std::vector<std::string>;
  CHECK(warned("{decay_type: rsqrt, timescale: 5, timescale_steps: 7}") ==
        Lines{"t.yaml:1:32: warning: timescale: has no effect, because timescale is also given in "
              "a unit"});
  CHECK(warned("{decay_type: rsqrt, shift: 5, shift_epochs: 1}").size() == 1);
  CHECK(warned("{decay_type: linear, linear_end: 0.5, end: 0.1}") ==
        Lines{"t.yaml:1:34: warning: linear_end: has no effect, because `end` is given"});
  CHECK(warned("{steps: [10, 40, 50, 60], mults: [0.5, 0.4, 0.3, 0.2]}") ==
        Lines{"t.yaml:1:9: warning: steps: those not before the end, step 40, have no effect: 40, "
              "50, 60"});
  CHECK(warned("{steps: [10, 39], mults: [0.5, 0.4]}").empty());
  // A run's config.yaml also states the defaults.
  CHECK(warned("{decay_type: rsqrt, timescale: 10000, timescale_steps: 7, shift: 0}").empty());
  CHECK(warned("{decay_type: linear, linear_end: 0, end: 0.1}").empty());
  CHECK(warned("{decay_type: linear, linear_end: 0.1, end: 0.1}").empty());
}

TEST_CASE("a cool-down that is longer than the run gives a warning") {
  const Config config = parse_config("{decay_type: rsqrt, cooldown_steps: 400}", "t.yaml");
  const RunLength length{.batch_size = 64, .data_size = 1000, .total_steps = 40};
  CHECK(Schedule(config, length)(0) == 0.1F);
  CHECK(warnings(config) ==
        std::vector<std::string>{"t.yaml: warning: the cool-down of 400 steps is longer than "
                                 "the 40 steps of the run, so the value begins at 0.1 of `mult`"});
  const Config whole = parse_config("{decay_type: rsqrt, cooldown_steps: 40}", "t.yaml");
  Schedule(whole, length);
  CHECK(warnings(whole).empty());
}

TEST_CASE("a run of one step may be all warm-up") {
  const Config config = parse_config("{decay_type: cosine, warmup_steps: 1}", "t.yaml");
  const Schedule schedule(config, {.batch_size = 8, .data_size = 8, .total_steps = 1});
  CHECK(problem_count(config) == 0);
  CHECK(schedule(0) == 0.0F);
}

TEST_CASE("a run that trains nothing may keep its schedule") {
  for (const std::string& name : Decay::Registry::names()) {
    INFO(name);
    const std::string own = name == "rsqrt" ? ", timescale_percent: 0.1, shift_percent: 0.1" : "";
    const Config config = parse_config(
        "{decay_type: " + name + own + ", warmup_percent: 0.1, cooldown_percent: 0.1}", "t.yaml");
    const Schedule schedule(config, {.batch_size = 8, .data_size = 80, .no_training = true});
    CHECK(problem_count(config) == 0);
    CHECK(std::isfinite(schedule(0)));
  }
}

TEST_CASE("schedules that would become negative or infinite are refused") {
  CHECK(problems("schedule: {mult: -1}") ==
        "t.yaml:1:18: error: schedule.mult: must not be negative, got -1");
  CHECK(problems("schedule: {steps: [1, 2], mults: [0.5, -0.1]}") ==
        "t.yaml:1:34: error: schedule.mults: each of them must not be negative, got -0.1");
  CHECK(problems("schedule: {steps: [20, 10], mults: [0.5, 0.1]}") ==
        "t.yaml:1:19: error: schedule.steps: must be in ascending order");
  CHECK(problems("schedule: {decay_type: polynomial, end: -0.1}") ==
        "t.yaml:1:41: error: schedule.end: must not be negative, got -0.1");
  CHECK(problems("schedule: {decay_type: linear, linear_end: -0.1}") ==
        "t.yaml:1:44: error: schedule.linear_end: must not be negative, got -0.1");
  CHECK(problems("schedule: {decay_type: polynomial, power: -1}") ==
        "t.yaml:1:43: error: schedule.power: must not be negative, got -1");
  CHECK(problems("schedule: {decay_type: rsqrt, shift: -20000}") ==
        "t.yaml:1:38: error: schedule.shift: must not be negative, got -20000");
  CHECK(problems("schedule: {decay_type: rsqrt, timescale_steps: -5}") ==
        "t.yaml:1:48: error: schedule.timescale_steps: must not be negative, got -5");
  CHECK(problems("schedule: {decay_type: rsqrt, shift_epochs: -1}") ==
        "t.yaml:1:45: error: schedule.shift_epochs: must not be negative, got -1");
  CHECK(problems("schedule: {warmup_steps: -5}") ==
        "t.yaml:1:26: error: schedule.warmup_steps: must not be negative, got -5");
  CHECK(problems("schedule: {decay_type: cosine, cooldown_epochs: -1}") ==
        "t.yaml:1:49: error: schedule.cooldown_epochs: must not be negative, got -1");
  CHECK(problems("schedule: {mult: 0, warmup_steps: 0}").empty());
  CHECK(problems("schedule: {decay_type: linear, end: 0, power: 2}").empty());
  CHECK(problems("schedule: {steps: [10, 20], mults: [0.5, 0]}").empty());
}

TEST_CASE("bad schedule keys are refused") {
  CHECK(problems("schedule: {base: 2}") ==
        "t.yaml:1:18: error: schedule.base: 'base' is not a key of a schedule; use 'mult'");
  CHECK(problems("schedule: {decay_type: cosin}") ==
        "t.yaml:1:24: error: unknown decay_type 'cosin' (did you mean 'cosine'?); known: cosine, "
        "linear, polynomial, rsqrt, stair");
  CHECK(problems("schedule: {decay_type: cosine, warmup_steps: 40}") ==
        "t.yaml:1:11: error: schedule: the warm-up of 40 steps must be shorter than the 40 steps "
        "of the run");
  CHECK(problems("schedule: {decay_type: cosine, wramup_steps: 4}") ==
        "t.yaml:1:32: error: unknown key 'schedule.wramup_steps' (did you mean 'warmup_steps'?)");
  CHECK(problems("schedule: {steps: [1, 2], mults: [0.5]}") ==
        "t.yaml:1:34: error: schedule.mults: needs one number for each of the 2 steps, got 1");
  CHECK(problems("schedule: {decay_type: rsqrt, timescale: 0}") ==
        "t.yaml:1:42: error: schedule.timescale: must be positive");
}

}  // namespace bv::test
