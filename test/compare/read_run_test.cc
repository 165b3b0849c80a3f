// Reading workdirs: large and damaged files, and paths that are not workdirs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "lib/compare/find_runs.h"
#include "lib/compare/metric_scan.h"
#include "lib/report/metric_file.h"
#include "test/compare/workdirs.h"
#include "test/support/clock.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

using Lines = std::vector<std::string>;

MetricScan scan(const std::string& text) {
  const TempFolder dir;
  return scan_metrics(dir.write("m.jsonl", text), /*with_curves=*/true);
}

}  // namespace

TEST_CASE("a scan agrees with the rows as they were written") {
  Row row{{"a/b@1", 0.1}, {"quote\"d \\ \n", -1e-300}, {"nan", std::nan("")}, {"inf", INFINITY}};
  std::string text;
  for (int64_t step = 0; step < 5000; ++step) {
    row[0].second = std::sin(static_cast<double>(step));
    text += row_text(step, row);
  }
  const MetricScan all = scan(text);
  CHECK(all.rows == 5000);
  CHECK(all.damaged == 0);
  CHECK(all.cut_line == 0);
  REQUIRE(all.series.size() == 4);
  const MetricSeries& wave = all.series.at("a/b@1");
  CHECK(wave.last == std::pair<int64_t, double>(4999, std::sin(4999.0)));
  History history;
  for (int64_t step = 0; step < 5000; ++step)
    history.add(step, {{"x", std::sin(static_cast<double>(step))}});
  CHECK(wave.min == history.summaries.at("x").min);
  CHECK(wave.max == history.summaries.at("x").max);
  CHECK(wave.points.size() <= MetricSeries::kMostPoints);
  CHECK(wave.points.size() > MetricSeries::kMostPoints / 3);
  CHECK(wave.points.front().first == 0);
  CHECK(wave.points.back() == wave.last);
  for (size_t i = 2; i + 1 < wave.points.size(); ++i)  // evenly
    CHECK(wave.points[i].first - wave.points[i - 1].first == wave.points[1].first);
  CHECK(all.series.at("quote\"d \\ \n").last.second == -1e-300);
  CHECK(std::isnan(all.series.at("nan").last.second));
  CHECK_FALSE(all.series.at("nan").has_extremes);
  CHECK(all.series.at("inf").max.second == INFINITY);
}

TEST_CASE("damaged lines do not count, wherever the damage is") {
  const std::string good = "{\"step\": 1, \"x\": 1}\n";
  const Lines bad = {"{\"step\": 2, \"x\": 7",
                     "{\"step\": 2, \"x\": }",
                     "{\"step\": 2, \"x\": 7} 3",
                     "{\"step\": 2.5, \"x\": 7}",
                     "{\"step\": -2, \"x\": 7}",
                     "{\"step\": 1e300, \"x\": 7}",
                     "{\"step\": \"nan\", \"x\": 7}",
                     "{\"x\": 7}",
                     "{\"step\": 1, \"x\": 7}",
                     "{\"step\": 2, \"x\": [7]}",
                     "{\"step\": 2, \"x\": \"seven\"}",
                     "{\"step\": 2, \"x\": nan}",
                     "{\"step\": 2, \"x\": 1e999}",
                     "{\"step\": 2, \"x\": +7}",
                     "{\"step\": 2, \"x",
                     "{\"step\": 2, \"x\\",
                     "[]",
                     "{}",
                     "",
                     std::string("\0\0\0\0", 4)};
  for (const std::string& line : bad) {
    INFO(line);
    const MetricScan all = scan(good + line + "\n{\"step\": 3, \"y\": 2}\n");
    CHECK(all.rows == 2);
    CHECK(all.damaged == 1);
    CHECK(all.first_damaged == 2);
    CHECK(all.series.at("x").last.second == 1);
    CHECK(all.series.size() == 2);
  }
  // Every prefix of a file is read without a crash, and its complete rows count.
  const std::string text = good + "{\"step\": 2, \"x\": \"nan\", \"a\\n\": -0.5e-3}\n";
  for (size_t length = 0; length <= text.size(); ++length) {
    const MetricScan all = scan(text.substr(0, length));
    CHECK(all.rows == (length >= good.size()) + (length == text.size()));
    CHECK(all.damaged == 0);
  }
}

TEST_CASE("each kind of damage gets one line") {
  const Workdirs runs;
  runs.run("a", "lr: 1\n", {0.5, 0.6});
  runs.dir.write("a/metrics.jsonl", read_text(runs.dir / "a/metrics.jsonl") + "x\n{\"step\": 30");
  runs.run("b", "lr: 2\n", {0.5});
  runs.dir.write("b/metrics.jsonl", "x\ny\n");
  runs.run("c", "lr: [\n", {0.5});
  runs.run("d", "lr: 1\n", {0.5});
  std::filesystem::remove(runs.dir / "d/config.yaml");
  runs.run("e", "lr: 5\n", {0.5});
  std::filesystem::remove(runs.dir / "e/metrics.jsonl");
  Lines warnings;
  const auto records = runs.records(&warnings);
  CHECK(records.size() == 3);
  REQUIRE(warnings.size() == 5);
  const std::string at = runs.dir.path();
  CHECK(warnings[0] ==
        at + "/a/metrics.jsonl:3: warning: not a metric row, or out of step order; it is ignored");
  CHECK(warnings[1] ==
        at + "/a/metrics.jsonl:4: warning: the last row is incomplete; it is ignored");
  CHECK(warnings[2] == at + "/b/metrics.jsonl:1: warning: 2 lines from here on are not metric "
                            "rows, or out of step order; they are ignored");
  CHECK(warnings[3].starts_with(at + "/c: warning: left out: " + at + "/c/config.yaml:"));
  CHECK(warnings[4] ==
        at + "/d: warning: the run has no config.yaml, so it cannot be compared; left out");
}

TEST_CASE("paths of runs: workdirs, folders that hold some, and globs") {
  const TempFolder dir;
  for (const char* run : {"s/a", "s/b", "s/deep/er/c", "t[1]"})
    dir.write(std::string(run) + "/config.yaml", "");
  for (const char* file : {"config.yaml", "metrics.jsonl", "evaluated.json"})
    dir.write(std::string("s/rows/") + file, "");  // of `bvtrain eval --output`
  dir.make("s/empty");
  dir.write("notes.txt", "");
  dir.make("nothing");
  const auto found = [&](const Lines& names, Lines* warnings = nullptr) {
    Lines paths, ignored;
    for (const std::string& name : names) paths.push_back(dir / name);
    return short_names(find_runs(paths, warnings != nullptr ? *warnings : ignored));
  };
  CHECK(found({"s/a", "s/b/"}) == Lines{"a", "b"});
  CHECK(found({"s"}) == Lines{"a", "b", "deep/er/c"});
  CHECK(found({"s", "s/a", "s/../s/b"}).size() == 3);  // each once
  CHECK(found({"s/[ab]", "t[1]"}) == Lines{"s/a", "s/b", "t[1]"});
  Lines warnings;
  CHECK(found({"*"}, &warnings).size() == 4);
  REQUIRE(warnings.size() == 2);
  std::sort(warnings.begin(), warnings.end());
  CHECK(warnings[0] == dir / "notes.txt: warning: not a folder; left out");
  CHECK(warnings[1] == dir / "nothing: warning: not a workdir, and it holds none; left out");
  CHECK(error_of([&] { found({"u"}); }) == dir / "u: error: no such folder");
  CHECK(error_of([&] { found({"u*"}); }) == dir / "u*: error: matches no folder");
  CHECK(short_names({"one"}) == Lines{"one"});
  CHECK(short_names({"x/one", "x/one/two"}) == Lines{"one", "one/two"});
}

TEST_CASE("a scan of metrics takes a fraction of the time of reading them as JSON") {
  const TempFolder dir;
  std::string text;
  Row row;
  for (int i = 0; i < 20; ++i) row.emplace_back(fmt::format("some/metric_{}", i), 0.0);
  for (int64_t step = 1; step <= 4000; ++step) {
    for (auto& [name, value] : row) value = std::cos(static_cast<double>(step) + value);
    text += row_text(step, row);
  }
  const std::string file = dir.write("metrics.jsonl", text);
  double slow = cpu_seconds();
  CHECK(restore_rows(file, 4000).steps.size() == 4000);
  slow = cpu_seconds() - slow;
  double fast = cpu_seconds();
  CHECK(scan_metrics(file, /*with_curves=*/false).rows == 4000);
  fast = cpu_seconds() - fast;
  INFO(fast << " s, as JSON " << slow << " s");
  CHECK(fast < slow / 2);  // typically a tenth
}

}  // namespace bv::test
