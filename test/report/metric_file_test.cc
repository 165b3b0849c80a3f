// metrics.jsonl as a file: what a restart keeps, drops and moves aside.
#include "lib/report/metric_file.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "lib/util/error.h"
#include "lib/util/file.h"
#include "test/support/error.h"
#include "test/support/folder.h"

using bv::Exit;
using bv::read_file;
using bv::test::TempFolder;

TEST_CASE("damaged lines are dropped, the rows around them stay") {
  const TempFolder scratch;
  const std::string hostile = std::string(100000, '[') + "\n" + "{\"step\": 1e99}\n" + "[1]\n" +
                              "{\"step\": 18446744073709551615, \"a\": 1}\n" +
                              "{\"step\": -3, \"a\": 1}\n" + "{\"step\": 3, \"a\": [1]}\n" +
                              std::string(1, '\0') + "\n\n" + "{\"step\": 2, \"a\": 1}\n" +
                              "{\"step\": 3, \"a\": \"\xff\"}\n";
  bv::write_file_atomically(scratch / "metrics.jsonl",
                            "{\"step\": 2, \"a\": 1}\n" + hostile + "{\"step\": 4, \"a\": 1}\n");
  const auto [steps, history] = bv::restore_rows(scratch / "metrics.jsonl", 100);
  CHECK(steps == std::vector<int64_t>{2, 4});
  CHECK(read_file(scratch / "metrics.jsonl") ==
        "{\"step\": 2, \"a\": 1}\n{\"step\": 4, \"a\": 1}\n");
  CHECK(history.series.at("a") == bv::Points{{2, 1}, {4, 1}});
}

TEST_CASE("a damaged step costs its own row only, and the file as it was stays") {
  const TempFolder scratch;
  const std::string file = scratch / "metrics.jsonl";
  const auto row = [](int64_t step, double value) { return bv::row_text(step, {{"a", value}}); };
  // The step of the second row was 20. That of the last but one was 60, and 40 comes twice.
  const std::string content = row(10, 1) + row(920, 2) + row(30, 3) + row(40, 4) + row(40, 5) +
                              row(50, 6) + row(6, 7) + row(70, 8) + "{\"step\": 80, \"a";
  for (const int round : {1, 2}) {
    bv::write_file_atomically(file, content);
    const auto [steps, history] = bv::restore_rows(file, 1000);
    CHECK(steps == std::vector<int64_t>{10, 30, 40, 50, 70});
    CHECK(read_file(file) == row(10, 1) + row(30, 3) + row(40, 4) + row(50, 6) + row(70, 8));
    CHECK(history.series.at("a") == bv::Points{{10, 1}, {30, 3}, {40, 4}, {50, 6}, {70, 8}});
    CHECK(read_file(file + (round == 1 ? ".damaged" : ".damaged-2")) == content);
  }
  // An incomplete last line from a killed run is not damage.
  bv::write_file_atomically(file, row(10, 1) + row(20, 2) + "{\"st");
  CHECK(bv::restore_rows(file, 10).steps == std::vector<int64_t>{10});
  CHECK_FALSE(bv::file_exists(file + ".damaged-3"));
}

TEST_CASE("rows after the step that a run continues from do not displace those before it") {
  const TempFolder scratch;
  const std::string file = scratch / "metrics.jsonl";
  const auto row = [](int64_t step) { return bv::row_text(step, {{"a", step / 10.0}}); };
  // The rows of the steps 12, 14 and 16 have wrong steps, which form the longest sequence.
  const std::string content = row(10) + row(912) + row(914) + row(916) + row(20) + row(30);
  bv::write_file_atomically(file, content + row(60));
  const auto [steps, history] = bv::restore_rows(file, 50);
  CHECK(steps == std::vector<int64_t>{10, 20, 30});
  CHECK(read_file(file) == row(10) + row(20) + row(30));
  CHECK(history.series.at("a") == bv::Points{{10, 1}, {20, 2}, {30, 3}});
  CHECK(history.summaries.at("a").count == 3);
  CHECK(read_file(file + ".damaged") == content + row(60));
  // Their own order is not damage: they are dropped in any case.
  bv::write_file_atomically(file, row(10) + row(20) + row(70) + row(60) + row(70));
  CHECK(bv::restore_rows(file, 50).steps == std::vector<int64_t>{10, 20});
  CHECK(read_file(file) == row(10) + row(20));
  CHECK_FALSE(bv::file_exists(file + ".damaged-2"));
}

TEST_CASE("rows of a file that is read in several parts") {
  const TempFolder scratch;
  const std::string file = scratch / "metrics.jsonl";
  std::string rows;
  int64_t last = 0;
  while (rows.size() < size_t{3} << 20) {  // parts of 1 MiB, which end within lines
    ++last;
    const std::string name(last % 1000 + 1, 'b');
    rows += bv::row_text(last, {{"a", static_cast<double>(last) / 7.0}, {name, 1}});
  }
  const std::string next = bv::row_text(last + 1, {{std::string(size_t{2} << 20, 'c'), 1}});
  bv::write_file_atomically(file, rows + next + "{\"step\": 9");
  std::vector<int64_t> steps;
  bv::for_each_row(file, [&](int64_t step, const bv::Row& row) {
    steps.push_back(step);
    if (step <= last && row.at(0).second != static_cast<double>(step) / 7.0) FAIL(step);
  });
  CHECK(std::ssize(steps) == last + 1);
  CHECK(steps.back() == last + 1);
  CHECK(bv::restore_rows(file, last + 1).steps == steps);
  CHECK(read_file(file) == rows + next);
  CHECK(std::ssize(bv::restore_rows(file, last).steps) == last);
  CHECK(read_file(file) == rows);
  CHECK_FALSE(bv::file_exists(file + ".damaged"));
}

TEST_CASE("a metrics file that cannot be read is not taken for an empty one") {
  const TempFolder scratch;
  std::filesystem::create_symlink("metrics.jsonl", scratch / "metrics.jsonl");  // ELOOP
  CHECK(!bv::test::error_of([&] { bv::restore_rows(scratch / "metrics.jsonl", 10); }, Exit::storage)
             .empty());
  CHECK(bv::restore_rows(scratch / "none", 10).steps.empty());
}

TEST_CASE("the last whole row of a file") {
  const TempFolder scratch;
  const std::string file = scratch / "metrics.jsonl";
  CHECK(bv::last_row_step(file) == std::nullopt);
  const auto last = [&](const std::string& content) {
    bv::write_file_atomically(file, content);
    return bv::last_row_step(file);
  };
  CHECK(last("") == std::nullopt);
  CHECK(last("{\"step\": 3") == std::nullopt);
  CHECK(last("{\"step\": 3}\n") == 3);
  CHECK(last("{\"step\": 3}\n{\"step\": 14, \"a\": 1}\n{\"step\": 20") == 14);
  CHECK(last("{\"step\": 3}\n\nx\n") == 3);
  const std::string long_line(100000, 'x');  // more than is read at first
  CHECK(last("{\"step\": 3}\n" + long_line + "\n" + long_line) == 3);
  CHECK(last("{\"step\": 3}\n{\"" + long_line + "\": 1, \"step\": 7}\n") == 7);
  CHECK(last(long_line + "\n") == std::nullopt);
}

TEST_CASE("the last row of a file is found without reading the whole file") {
  const TempFolder scratch;
  const std::string file = scratch / "metrics.jsonl";
  bv::test::write(file, "{\"step\": 3}\n");
  std::filesystem::resize_file(file, uintmax_t{1} << 40);  // a hole, which takes no space
  std::ofstream(file, std::ios::app) << "\n{\"step\": 14}\n{\"step\": 20";
  CHECK(bv::last_row_step(file) == 14);
}

TEST_CASE("restored rows come back with their exact values") {
  const TempFolder scratch;
  const bv::Row row{{"a", 0.1}, {"b", -INFINITY}, {"c", 1e-310}};
  bv::write_file_atomically(scratch / "metrics.jsonl", bv::row_text(3, row));
  const bv::History history = bv::restore_rows(scratch / "metrics.jsonl", 3).history;
  for (const auto& [name, value] : row) {
    CHECK(history.series.at(name) == bv::Points{{3, value}});
  }
}
