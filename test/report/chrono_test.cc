// Chrono against the formulas of big_vision's Chrono (utils.py), with a fake clock.
#include "lib/report/chrono.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lib/util/error.h"

namespace {

using bv::Chrono;

struct Run {
  double now = 100;
  std::vector<std::pair<std::string, double>> measured;
  Chrono chrono{[this](std::string_view name, double value) {
                  measured.emplace_back(std::string(name), value);
                },
                [this] { return now; }, 90};

  explicit Run(Chrono::Setup setup) { chrono.inform(setup); }
  std::map<std::string, double> tick(int64_t step) {
    measured.clear();
    chrono.tick(step);
    return {measured.begin(), measured.end()};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : measured) names.push_back(name);
    return names;
  }
};

Chrono::Setup setup() {
  Chrono::Setup setup;
  setup.total_steps = 1000;
  setup.batch_size = 32;
  setup.steps_per_epoch = 62.5;
  setup.num_devices = 2;
  setup.device_kind = "cpu";
  return setup;
}

}  // namespace

TEST_CASE(
    "chrono: mfu is measured where the FLOPs and the peak are known, GB/s where the bytes are") {
  Chrono::Setup gpu = setup();
  double bytes = 0, flops = 100e9;
  gpu.step_bytes = [&] { return bytes; };
  gpu.example_flops = [&] { return flops; };
  gpu.peak_flops = 1e12;
  Run run(gpu);
  run.now = 103;
  CHECK_FALSE(run.tick(1).contains("mfu"));
  run.now = 104;
  run.tick(2);
  run.now = 114;
  const auto row = run.tick(12);
  CHECK(row.at("img/sec/core") == 16);  // 10 steps of 32 examples in 10 s on 2 devices
  CHECK(row.at("mfu") == Approx(1.6));
  CHECK_FALSE(row.contains("memory_gb/sec"));
  bytes = 3e9;  // of each device
  run.now = 119;
  CHECK(run.tick(22).at("memory_gb/sec") == Approx(6));
  flops = 0;  // not known, as for a model whose steps differ
  run.now = 129;
  CHECK_FALSE(run.tick(32).contains("mfu"));
}

TEST_CASE("chrono: two ticks of warm-up, then speed, core hours, note") {
  Run run(setup());
  CHECK(run.chrono.note() == "Steps:0/1000 [0.0%]");
  CHECK(run.chrono.warming_up());

  run.now = 103;
  auto row = run.tick(1);
  CHECK(run.names() == std::vector<std::string>{"uptime", "examples_seen", "progress", "epoch"});
  CHECK(row["uptime"] == 13);
  CHECK(row["examples_seen"] == 32);
  CHECK(row["progress"] == 0.001);
  CHECK(row["epoch"] == 1 / 62.5);
  CHECK(run.chrono.note() == "Steps:0/1000 [0.0%]");
  CHECK(run.chrono.warming_up());

  run.now = 104;
  run.tick(2);
  CHECK_FALSE(run.chrono.warming_up());
  CHECK(run.chrono.state().accum_program_time == 14);
  CHECK(run.chrono.state().accum_train_time == 0);
  CHECK(run.chrono.note() == "Steps:0/1000 [0.0%]");  // no remaining time yet

  run.now = 114;
  row = run.tick(12);
  const std::vector<std::string> names = run.names();
  REQUIRE(names.size() >= 7);
  CHECK(std::vector<std::string>(names.begin(), names.begin() + 7) ==
        std::vector<std::string>{"uptime", "examples_seen", "progress", "epoch", "img/sec/core",
                                 "core_hours_cpu", "core_hours"});
  CHECK(row["examples_seen"] == 12 * 32);
  CHECK(row["img/sec/core"] == 32 * 10 / 10.0 / 2);
  CHECK(row["steps_per_sec"] == 1);  // 10 steps in 10 s
  CHECK(row["core_hours"] == Approx(10.0 * 2 / 3600));
  CHECK(row["core_hours_cpu"] == row["core_hours"]);
  CHECK(run.chrono.note() ==
        "Steps:12/1000 [1.2%]\nWalltime:24s (0s eval)\nETA:16m28s\nTotal train time:16m40s");
}

TEST_CASE("chrono: a run that stops between two ticks loses nothing of its interval") {
  Run run(setup());
  run.tick(1);
  run.tick(2);
  run.now += 10;
  run.tick(12);
  run.now += 4;
  run.measured.clear();
  run.chrono.settle(15);
  CHECK(run.measured.empty());
  CHECK(run.chrono.state().accum_examples_seen == 15 * 32);
  CHECK(run.chrono.state().accum_train_time == 14);
  CHECK(run.chrono.state().accum_device_time == 28);
  CHECK(run.chrono.state().accum_program_time == 24);

  Run early(setup());  // in the warm-up, whose time is no training time
  early.now = 103;
  early.chrono.settle(7);
  CHECK(early.chrono.state().accum_examples_seen == 7 * 32);
  CHECK(early.chrono.state().accum_program_time == 13);
  CHECK(early.chrono.state().accum_train_time == 0);
}

TEST_CASE("chrono: a run that stops in a pause after the last tick loses nothing of it") {
  Run run(setup());
  run.tick(1);
  run.tick(2);
  run.now += 10;
  run.tick(12);
  run.now += 1;
  run.chrono.pause();
  run.now += 6;
  run.chrono.resume();
  run.measured.clear();
  run.chrono.settle(12);
  CHECK(run.measured.empty());
  CHECK(run.chrono.state().accum_examples_seen == 12 * 32);
  CHECK(run.chrono.state().accum_train_time == 11);
  CHECK(run.chrono.state().accum_device_time == 22);
  CHECK(run.chrono.state().accum_pause_time == 6);
  CHECK(run.chrono.state().accum_program_time == 27);

  Run early(setup());  // in the warm-up, at a step that has ticked
  early.tick(1);
  early.now += 5;
  early.chrono.settle(1);
  CHECK(early.chrono.state().accum_program_time == 15);
  CHECK(early.chrono.state().accum_train_time == 0);
}

TEST_CASE("chrono: pauses leave the speed alone, but count in ETA") {
  Run run(setup());
  run.tick(1);
  run.chrono.pause();  // before timing starts: dropped
  run.now += 50;
  run.chrono.resume();
  run.tick(2);
  const double start = run.chrono.state().accum_program_time;
  run.now += 4;
  run.chrono.pause();
  run.now += 6;
  run.chrono.resume();
  run.now += 1;
  run.chrono.pause();
  run.now += 2;
  run.chrono.resume();
  const auto row = run.tick(12);
  CHECK(row.at("img/sec/core") == 32 * 10 / 5.0 / 2);
  CHECK(run.chrono.state().accum_train_time == 5);
  CHECK(run.chrono.state().accum_pause_time == 8);
  CHECK(run.chrono.state().accum_program_time == start + 13);
  CHECK(run.chrono.note().find("\nETA:21m24s\n") != std::string::npos);  // 1.3 s for each of 988
  CHECK(run.chrono.paused_seconds() == 58);                              // those of the warm-up too

  run.now += 3;  // the pauses of before are gone
  CHECK(run.tick(15).at("img/sec/core") == 16);
}

TEST_CASE("chrono: speeds count from the last tick, even if a checkpoint was saved in between") {
  Chrono::Setup gpu = setup();
  gpu.step_bytes = [] { return 3e9; };
  gpu.example_flops = [] { return 100e9; };
  gpu.peak_flops = 1e12;
  Run run(gpu);
  run.now = 103;
  run.chrono.advance(1);
  run.chrono.advance(2);
  CHECK_FALSE(run.chrono.warming_up());
  run.now += 8;
  run.measured.clear();
  run.chrono.advance(10);
  CHECK(run.measured.empty());
  CHECK(run.chrono.state().accum_examples_seen == 10 * 32);
  CHECK(run.chrono.state().accum_train_time == 8);
  run.chrono.pause();
  run.now += 5;
  run.chrono.resume();
  run.now += 2;
  run.chrono.advance(11);
  run.chrono.advance(11);
  const auto row = run.tick(12);  // 10 steps in 10 s
  CHECK(row.at("steps_per_sec") == 1);
  CHECK(row.at("img/sec/core") == 16);
  CHECK(row.at("mfu") == Approx(1.6));
  CHECK(row.at("memory_gb/sec") == Approx(3));
  CHECK(row.at("core_hours") == Approx(10.0 * 2 / 3600));
  CHECK(run.chrono.state().accum_train_time == Approx(10));
  CHECK(run.chrono.state().accum_pause_time == 5);
  run.now += 4;
  CHECK(run.tick(14).at("steps_per_sec") == 0.5);
}

TEST_CASE("chrono: a second tick at a step does nothing") {
  Run run(setup());
  run.tick(1);
  run.now += 1;
  run.tick(1);
  CHECK(run.measured.empty());
  CHECK(run.chrono.state().accum_examples_seen == 32);
}

TEST_CASE("chrono: a restart goes on from the saved state") {
  Chrono::Setup resumed = setup();
  resumed.first_step = 500;
  resumed.state = {1000, 800, 100, 500 * 32, 800 * 8};  // on eight devices so far
  Run run(resumed);
  CHECK(run.chrono.note() == "Steps:500/1000 [50.0%]");
  CHECK(run.tick(501).at("examples_seen") == 501 * 32);
  run.tick(502);
  CHECK(run.chrono.state().accum_program_time == 1010);
  run.now += 10;
  const auto row = run.tick(512);
  CHECK(row.at("core_hours") == Approx((800.0 * 8 + 10 * 2) / 3600));
  CHECK(run.chrono.state().accum_train_time == 810);
  CHECK(run.chrono.state().accum_pause_time == 100);
  CHECK(run.chrono.note().find("\nETA:8m8s\n") != std::string::npos);
}

TEST_CASE("chrono: pausing twice and resuming twice are errors") {
  Run run(setup());
  CHECK_THROWS_WITH(run.chrono.resume(), "internal: error: chrono is not paused");
  run.chrono.pause();
  CHECK_THROWS_WITH(run.chrono.pause(), "internal: error: chrono is already paused");
}

TEST_CASE("chrono: timings") {
  Run run(setup());
  run.chrono.time("z/secs/update0", [&] { run.now += 1.5; });
  CHECK(run.measured == decltype(run.measured){{"z/secs/update0", 1.5}});
}

TEST_CASE("chrono: host memory is measured after warm-up") {
  Run run(setup());
  run.tick(1);
  CHECK(run.tick(2).count("y/hostmem/total") == 0);
  run.now += 1;
  const auto row = run.tick(3);
  CHECK(row.at("y/hostmem/total") > 1e8);
  CHECK(row.at("y/hostmem/available") + row.at("y/hostmem/used") ==
        Approx(row.at("y/hostmem/total")));
  CHECK(row.at("y/hostmem/rss") > 1e6);
  CHECK(row.at("y/hostmem/rss") < row.at("y/hostmem/total"));
}

TEST_CASE("chrono: a clock that stands still gives finite numbers") {
  Run run(setup());
  run.tick(1);
  run.tick(2);
  CHECK(std::isfinite(run.tick(3).at("img/sec/core")));
}

TEST_CASE("chrono: seconds carry over into minutes") {
  Chrono::Setup resumed = setup();
  resumed.state.accum_program_time = 459.7;  // and 20 s below
  resumed.state.accum_pause_time = 59.8;
  Run run(resumed);
  run.tick(1);
  run.tick(2);
  run.now += 10;
  run.tick(12);
  CHECK(run.chrono.note() ==
        "Steps:12/1000 [1.2%]\nWalltime:8m0s (1m0s eval)\nETA:16m28s\nTotal train time:16m40s");
}

TEST_CASE("chrono: a run of zero steps is complete") {
  Chrono::Setup empty = setup();
  empty.total_steps = 0;
  CHECK(Run(empty).chrono.note() == "Steps:0/0 [100.0%]");
}

// A shell script that ends with `exec program` is one process with the program, and its time before
// that does not belong to the program.
TEST_CASE("the program's start is later than that of a shell that executes it") {
  CHECK(bv::program_start() <= bv::monotonic_seconds());
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  ::setenv("BV_TEST_SHELL_START", std::to_string(bv::monotonic_seconds()).c_str(), 1);
  const std::string script =
      "sleep 0.5; exec '" + program + "' -w NoTests '[after_shell]' >/dev/null";
  CHECK(std::system(script.c_str()) == 0);
  ::unsetenv("BV_TEST_SHELL_START");
}

TEST_CASE("executed by the test above", "[.][after_shell]") {
  const char* shell_start = std::getenv("BV_TEST_SHELL_START");
  REQUIRE(shell_start != nullptr);
  CHECK(bv::program_start() > std::atof(shell_start) + 0.4);
}
