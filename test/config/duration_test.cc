// Durations, itstime and hms are compared with numbers from the reference code, seconds with those
// from JAXline.
#include "lib/config/duration.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <random>
#include <regex>

#include "lib/config/load_config.h"
#include "lib/util/file.h"
#include "test/support/error.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

// Returns the text of a golden file, "[]" if it is missing.
std::string golden_text(const std::string& name) {
  const std::string file = golden_file(name);
  return file.empty() ? "[]" : read_file(file);
}

// Returns the items of a golden file as configs: JSON is YAML.
std::vector<Config> golden(const std::string& name) {
  return parse_config("{cases: " + golden_text(name) + "}", name).sections("cases");
}

Config duration(const std::string& text) { return parse_config(text, "x.yaml"); }

constexpr RunLength kLength{10, 100, 1000};

}  // namespace

TEST_CASE("durations as the reference converts them") {
  const auto cases = golden("durations.json");
  int compared = 0;
  for (const Config& c : cases) {
    const Config args = c.section("args");
    const RunLength length{args.get("batch_size", int64_t{0}), args.get("data_size", int64_t{0}),
                           args.get("total_steps", int64_t{0})};
    const std::string name = c.get<std::string>("prefix");
    const Config config = c.section("config");
    INFO(c.json());
    std::string result = c.get("result", "null");
    std::optional<double> got;
    const std::string line = error_of([&] { got = duration_real(config, name, length); });
    if (result == "AssertionError") {
      CHECK_FALSE(line.empty());
    } else if (result == "ValueError" || result == "null") {
      // The reference ignores a unit that it cannot convert. Here that is an error.
      CHECK(line.empty() == config.keys().empty());
      CHECK_FALSE(got);
    } else {
      CHECK(line.empty());
      REQUIRE(got);
      CHECK(*got == c.get<double>("result"));
      if (*got == std::floor(*got)) {
        CHECK(duration_steps(config, name, length) == static_cast<int64_t>(*got));
      }
    }
    ++compared;
  }
  CHECK((cases.empty() || compared == 25));
}

TEST_CASE("round half to even, but never to nothing") {
  CHECK(round_steps(0) == 0);
  CHECK(round_steps(1e-9) == 1);
  CHECK(round_steps(0.5) == 1);
  CHECK(round_steps(1.5) == 2);
  CHECK(round_steps(2.5) == 2);
  CHECK(round_steps(3.5) == 4);
}

TEST_CASE("a wrong duration gives one line") {
  const auto line = [](const std::string& text, RunLength length = kLength) {
    const Config c = duration(text);
    return error_of([&] { duration_steps(c, "log", length); });
  };
  CHECK(line("log_steps: 5\nlog_epochs: 1\n") ==
        "x.yaml:2:13: error: log_epochs: give only one of log_steps and log_epochs");
  CHECK(line("log_percent: 1.5\n") ==
        "x.yaml:1:14: error: log_percent: must be in [0, 1], got 1.5 (a fraction, not 0..100)");
  CHECK(line("log_steps: 12.5\n") ==
        "x.yaml:1:12: error: log_steps: must be a whole number of steps, got 12.5");
  CHECK(line("log_epochs: 1\n", {10, 0, 0}) ==
        "x.yaml:1:13: error: log_epochs: cannot be used here: the size of the data is not known "
        "(give log_steps)");
  CHECK(line("log_epochs: 1\n", {0, 100, 0}) ==
        "x.yaml:1:13: error: log_epochs: cannot be used here: the batch size is not known (give "
        "log_steps)");
  CHECK(line("log_percent: 0.5\n", {10, 100, 0}) ==
        "x.yaml:1:14: error: log_percent: cannot be used here: the total number of steps is not "
        "known (give log_steps)");
  // Nothing is trained: the number of steps is known to be 0.
  CHECK(line("log_percent: 0.5\n", {.batch_size = 10, .data_size = 100, .no_training = true})
            .empty());
  CHECK(line("log_epochs: 1e30\n") == "x.yaml:1:13: error: log_epochs: too long: 1e+31 steps");
  CHECK(line("log_steps: many\n").empty());  // collected, not thrown
  const Config c = duration("log_seconds: 5\n");
  CHECK_FALSE(duration_steps(c, "log", kLength));
  c.done();
  CHECK(error_of([&] { throw_problems(c); }) ==
        "x.yaml:1:1: error: unknown key 'log_seconds': this is 'log_training_seconds' here");
}

TEST_CASE("an interval is in steps or in seconds") {
  const auto every = [](const std::string& text) {
    return duration_every(duration(text), "log", kLength);
  };
  CHECK(every("log_epochs: 2\n")->steps == 20);
  CHECK(every("log_seconds: 2.5\n")->seconds == 2.5);
  CHECK(every("log_seconds: 2.5\nlog_steps: -1\n")->seconds == 2.5);
  CHECK(every("log_seconds: -1\nlog_steps: 3\n")->steps == 3);
  CHECK_FALSE(every("other: 1\n"));
  CHECK_FALSE(*every("log_steps: 0\n"));
  CHECK(error_of([&] { every("log_seconds: 2.5\nlog_steps: 3\n"); }) ==
        "x.yaml:1:14: error: log_seconds: give only one of log_steps and log_seconds");
}

TEST_CASE("itstime as in the reference") {
  const auto cases = golden("itstime.json");
  for (const Config& c : cases) {
    INFO(c.json());
    const auto total = c.get<int64_t>("total");
    std::vector<int64_t> steps;
    for (int64_t step = 1; step <= total; ++step) {
      if (itstime(step, c.get("every", int64_t{0}), total, c.get<bool>("last"),
                  c.get<bool>("first"))) {
        steps.push_back(step);
      }
    }
    CHECK(steps == c.get<std::vector<int64_t>>("steps"));
  }
  CHECK_FALSE(itstime(10, 0, 10));
}

TEST_CASE("hms as in the reference") {
  const std::string text = golden_text("hms.json");
  const std::regex pair(R"re(\[\s*([0-9.]+),\s*"([^"]+)"\s*\])re");
  size_t compared = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), pair), end; it != end; ++it, ++compared) {
    CHECK(hms(std::stod((*it)[1])) == (*it)[2]);
  }
  CHECK((text == "[]" || compared == 15));
}

TEST_CASE("seconds are due as in JAXline") {
  const auto cases = golden("jaxline_periodic.json");
  int compared = 0;
  for (const Config& c : cases) {
    if (c.get<std::string>("type") != "secs") continue;
    Due due({0, c.get<double>("interval")}, 1'000'000, false, false);
    due(0, 0.0);  // the clock starts with the loop
    std::vector<int64_t> fired;
    const auto times = c.get<std::vector<double>>("times");
    for (size_t i = 0; i < times.size(); ++i) {
      if (due(static_cast<int64_t>(i) + 1, times[i])) fired.push_back(static_cast<int64_t>(i) + 1);
    }
    CHECK(fired == c.get<std::vector<int64_t>>("fired"));
    ++compared;
  }
  CHECK((cases.empty() || compared == 2));
}

// The clock is monotonic, but it may stop while the machine sleeps, or jump when it wakes.
TEST_CASE("a week by the clock: no interval is lost and none is repeated") {
  std::mt19937 random(3);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Due due(Every{0, 600}, int64_t{1} << 40, /*last=*/false, /*first=*/false);
  double now = 1000, last = now, longest = 0;
  int64_t step = 1, count = 0;
  due(step, now);
  while (now < 7 * 24 * 3600.0) {
    const double passed = random() % 1000 == 0 ? uniform(600, 20000) : uniform(0, 30);
    now += passed;
    longest = std::max(longest, passed);
    const bool expected = now - last >= 600;
    REQUIRE(due(++step, now) == expected);
    if (!expected) continue;
    last = now;
    ++count;
  }
  CHECK(longest > 600);
  CHECK(count > 500);
}

TEST_CASE("due by the clock, at the first and the last step") {
  Due due({0, 10}, 100, true, true);
  CHECK(due(1, 1000));
  CHECK_FALSE(due(2, 1009.9));
  CHECK(due(3, 1010));
  CHECK_FALSE(due(4, 1019));
  CHECK(due(100, 1019.5));
  Due never({0, 0}, 100, true, true);
  CHECK_FALSE(never(1, 5));
  CHECK_FALSE(never(100, 6));
  Due steps({5, 0}, 12, true, false);
  CHECK_FALSE(steps(1, 0));
  CHECK(steps(5, 0));
  CHECK(steps(12, 0));
}

TEST_CASE("growth steps are ratios of powers of ten") {
  const auto steps = [](const std::vector<double>& ratios, int64_t last) {
    std::vector<int64_t> found;
    for (int64_t step = 0; step <= last; ++step) {
      if (is_growth_step(step, ratios)) found.push_back(step);
    }
    return found;
  };
  CHECK(steps({}, 100).empty());
  CHECK(steps({1, 2, 5}, 600) == std::vector<int64_t>{1, 2, 5, 10, 20, 50, 100, 200, 500});
  CHECK(steps({2.5}, 300) == std::vector<int64_t>{2, 25, 250});  // halves round to even
  CHECK(steps({10}, 300) == std::vector<int64_t>{});  // 10^k is the largest power up to the step
}

}  // namespace bv::test
