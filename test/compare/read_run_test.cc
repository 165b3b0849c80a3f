// Reading workdirs: large and damaged files, and paths that are not workdirs.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

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

TEST_CASE("the newest of run.json, result.json and FAILED tells how a run ended") {
  const Workdirs runs;
  runs.run("a", "lr: 1\n", {0.5}, /*finished=*/false);
  const auto now = std::filesystem::file_time_type::clock::now();
  const auto write_at = [&](int seconds, const std::string& name, const std::string& text) {
    std::filesystem::last_write_time(runs.dir.write("a/" + name, text),
                                     now + std::chrono::seconds(seconds));
  };
  const auto status = [&] { return runs.compared().runs[0].status.text(); };
  write_at(1, "run.json", "{}");
  write_at(2, "result.json", R"({"exit_code": 143})");
  write_at(3, "FAILED", "134\n");  // the next start died early
  CHECK(status() == "failed with code 134 at step 10 of 40");
  write_at(4, "run.json", "{}");  // a start after that one
  std::filesystem::remove(runs.dir / "a/result.json");
  CHECK(status() == "unfinished at step 10 of 40");
  write_at(5, "result.json", R"({"exit_code": 6})");
  CHECK(status() == "failed with code 6 at step 10 of 40");
}

TEST_CASE("a restart with a harmless change leaves a run in its group") {
  const Workdirs runs;
  for (const int seed : {0, 1, 2})
    runs.run(fmt::format("s{}", seed), fmt::format("seed: {}\nlr: 0.1\n", seed), {0.9, 0.8});
  runs.dir.write("s0/run.json", R"({"config_changes": [{"step": 14, "changes":
      ["max_checkpoints_to_keep: 2 -> 3"], "harmless": ["max_checkpoints_to_keep: 2 -> 3"]}]})");
  runs.dir.write("s1/run.json", R"({"config_changes": [{"step": 16, "harmless": ["fname: a -> b"],
      "changes": ["fname: a -> b"]}]})");
  CHECK(runs.compared().groups.size() == 1);
  runs.dir.write("s2/run.json", R"({"config_changes": [{"step": 10, "harmless": ["fname: a -> b"],
      "changes": ["fname: a -> b", "lr: 0.3 -> 0.1"]}]})");
  CHECK(runs.compared().keys == Lines{"lr until step 10"});
}

TEST_CASE("run.json tells whether the data were generated and what `precision: auto` was") {
  const Workdirs runs;
  for (const char* name : {"a", "b", "c", "d"})
    runs.run(name, fmt::format("seed: {}\nprecision: auto\n", static_cast<int>(name[0])), {0.5});
  const auto write_run_json = [&](const std::string& name, const std::string& precision,
                                  bool synthetic) {
    runs.dir.write(name + "/run.json",
                   fmt::format(R"({{"precision": "{}", "synthetic": {}, "argv": ["bvtrain"]}})",
                               precision, synthetic));
  };
  write_run_json("a", "bf16", false);
  write_run_json("b", "bf16", false);
  write_run_json("c", "float32", false);
  write_run_json("d", "bf16", true);
  const Comparison all = runs.compared();
  CHECK(all.keys == Lines{"--synthetic", "precision"});
  CHECK(all.groups.size() == 3);
  CHECK(all.runs[2].config.at("precision") == "\"float32\"");
  write_run_json("c", "bf16", false);
  write_run_json("d", "bf16", false);
  CHECK(runs.compared().groups.size() == 1);
}

TEST_CASE("nested values in run.json and blanks in a split do not exhaust the stack") {
  const Workdirs all;
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  all.run("a", "lr: 1\n", {0.5});
  all.dir.write("a/run.json", R"({"config_changes": [], "x": )" + nested(1'000'000) + "}");
  all.run("b", "lr: 1\n", {0.5});
  all.dir.write("b/run.json", R"({"config_changes": [{"step": 1, "changes": ["lr: )" +
                                  nested(1'000'000) + R"( -> 1"]}]})");
  all.run("c", "input: {data: {split: 'fold" + std::string(100'000, ' ') + "1/5'}}\n", {0.5});
  const std::vector<RunRecord> runs = all.records();
  REQUIRE(runs.size() == 3);
  CHECK_FALSE(runs[1].config.contains("lr until step 1"));
  CHECK(runs[2].fold == "1/5");
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

TEST_CASE("a config beside the runs of an experiment does not hide them") {
  const TempFolder dir;
  dir.write("exp/config.yaml", "");
  dir.write("exp/seed0/run.json", "{}");
  dir.write("exp/seed1/config.yaml", "");  // the run has just begun
  dir.make("exp/seed1/log");
  Lines warnings;
  CHECK(short_names(find_runs({dir / "exp"}, warnings)) == Lines{"seed0", "seed1"});
  CHECK(find_runs({dir / "exp/seed1"}, warnings).size() == 1);
  CHECK(warnings.empty());
}

TEST_CASE("a folder to which many links lead is looked at once") {
  const Workdirs all;
  all.run("runs/a", "lr: 1\n", {0.5});
  all.dir.write("runs/config.yaml", "lr: 1\n");
  for (int i = 0; i < 300; ++i) {  // 300^3 ways below the folder
    std::filesystem::create_symlink(".", all.dir / fmt::format("circle{}", i));
    std::filesystem::create_symlink("..", all.dir / fmt::format("runs/circle{}", i));
  }
  Lines warnings;
  const std::vector<std::string> found = find_runs({all.dir.path()}, warnings);
  REQUIRE(found.size() == 1);
  CHECK(std::filesystem::equivalent(found[0], all.dir / "runs/a"));
  CHECK(warnings.empty());
}

TEST_CASE("runs in the workdir of another run are listed, and a warning says so") {
  const Workdirs all;
  for (const char* name : {"nest", "nest/a", "nest/b/c", "single"}) all.run(name, "lr: 1\n", {0.5});
  all.dir.make("nest/backup/ckpt/step-10");       // a copy, not a run
  all.dir.write("nest/configs/config.yaml", "");  // nor is this
  all.dir.write("nest/log/config.yaml", "");      // folders of the run itself
  all.dir.write("nest/log/metrics.jsonl", "");
  Lines warnings;
  CHECK(short_names(find_runs({all.dir.path()}, warnings)) ==
        Lines{"nest", "nest/a", "nest/b/c", "single"});
  const std::string warning =
      all.dir / "nest: warning: is itself the workdir of a run; the table also has ";
  CHECK(warnings == Lines{warning + "2 runs in the folders below it"});
  // Runs that are reached by links are in the table too.
  std::filesystem::remove_all(all.dir / "nest/a");
  warnings.clear();
  find_runs({all.dir / "nest"}, warnings);
  CHECK(warnings == Lines{warning + "1 run in the folders below it"});
  std::filesystem::create_directory_symlink("../../single", all.dir / "nest/b/link");
  warnings.clear();
  CHECK(find_runs({all.dir / "nest"}, warnings).size() == 3);
  CHECK(warnings == Lines{warning + "2 runs in the folders below it"});
  warnings.clear();
  CHECK(find_runs({all.dir / "nest", all.dir / "nest/../single"}, warnings).size() == 3);
  CHECK(warnings == Lines{warning + "1 run in the folders below it"});
}

TEST_CASE("a run has its own name, not that of a link, in whatever order folders are listed") {
  const Workdirs all;
  for (const char* name : {"l/run-1", "l/run-2", "l/b/run-3"}) all.run(name, "lr: 1\n", {0.5});
  all.run("elsewhere/run-4", "lr: 1\n", {0.5});
  all.dir.make("l/a");
  const auto link = [&](const char* to, const std::string& name) {
    std::filesystem::create_directory_symlink(to, all.dir / name);
  };
  link("run-2", "l/latest");
  link("run-1", "l/current");
  link("b", "l/a0");  // to a folder of runs
  link("../b/run-3", "l/a/latest");
  link("../elsewhere/run-4", "l/z-link");
  link("../elsewhere/run-4", "l/y-link");
  const auto found = [&](const Lines& names) {
    Lines paths, warnings;
    for (const std::string& name : names) paths.push_back(all.dir / name);
    const Lines runs = short_names(find_runs(paths, warnings));
    CHECK(warnings.empty());
    return runs;
  };
  CHECK(found({"l"}) == Lines{"b/run-3", "run-1", "run-2", "y-link"});
  CHECK(found({"l/*"}) == Lines{"b/run-3", "run-1", "run-2", "y-link"});
  CHECK(found({"l/latest", "l/run-2"}) == Lines{"run-2"});
  CHECK(found({"l/latest"}) == Lines{"latest"});
}

TEST_CASE("a folder that cannot be listed gets a warning") {
  const TempFolder dir;
  dir.write("s/a/config.yaml", "");
  dir.make("s/lost+found");
  for (const std::string& open : {dir.path(), dir / "s", dir / "s/a"}) ::chmod(open.c_str(), 0755);
  ::chmod((dir / "s/lost+found").c_str(), 0);
  const auto other_user = [](bool is) { return ::seteuid(is ? 65534 : 0) == 0; };
  const bool root = ::geteuid() == 0;  // who can list every folder
  if (root && !other_user(true)) return;
  Lines runs, warnings;
  const std::string fault = error_of([&] { runs = find_runs({dir / "s"}, warnings); });
  if (root) REQUIRE(other_user(false));
  ::chmod((dir / "s/lost+found").c_str(), 0700);
  CHECK(fault.empty());
  CHECK(runs == Lines{dir / "s/a"});
  CHECK(warnings == Lines{dir / "s/lost+found: warning: cannot list: Permission denied; left out"});
}

TEST_CASE("a scan ignores extremes from before a change, whatever the prefix of the metric") {
  const TempFolder dir;
  const std::string file =
      dir.write("m.jsonl", row_text(10, {{"a\"b\\/loss", 1}}) + row_text(20, {{"a\"b\\/loss", 3}}));
  const MetricScan all = scan_metrics(file, /*with_curves=*/false, {{"a\"b\\/", 10}});
  CHECK(all.series.at("a\"b\\/loss").min == MetricSeries::StepValue(20, 3));
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
  std::istringstream lines(text);
  size_t values = 0;
  for (std::string line; std::getline(lines, line);) values += nlohmann::json::parse(line).size();
  slow = cpu_seconds() - slow;
  CHECK(values == 4000 * 21);
  double fast = cpu_seconds();
  CHECK(scan_metrics(file, /*with_curves=*/false).rows == 4000);
  fast = cpu_seconds() - fast;
  INFO(fast << " s, as JSON " << slow << " s");
  CHECK(fast < slow / 2);  // typically a tenth
}

}  // namespace bv::test
