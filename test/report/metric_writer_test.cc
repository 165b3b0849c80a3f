// metrics.jsonl: rows in order, exact numbers, what a restart finds and drops.
#include "lib/report/metric_writer.h"

#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/report/log.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/report/metric_writer_support.h"
#include "test/support/variable.h"

namespace {

using bv::Error;
using bv::History;
using bv::json_number;
using bv::MetricWriter;
using bv::read_file;
using bv::test::add_row;
using bv::test::options_in;
using bv::test::TempFolder;
using bv::test::Variable;

}  // namespace

TEST_CASE("the summary of a restarted run has the rows that it keeps, and its new ones") {
  const TempFolder scratch;
  const auto loss = [](const MetricWriter& writer) {
    return writer.summary().entries().at("training_loss");
  };
  {
    MetricWriter writer(options_in(scratch));
    CHECK(writer.summary().entries().empty());
    add_row(writer, 1, 0.5);
    add_row(writer, 2, 0.75);
    add_row(writer, 3, 0.25);  // the restart drops it
    writer.begin_row(4);
    writer.measure("training_loss", 0.125);  // not ended
    CHECK(loss(writer).best->value == 0.25);
  }
  MetricWriter writer(options_in(scratch, 2));
  CHECK(loss(writer).best->value == 0.5);
  CHECK(loss(writer).best->step == 1);
  CHECK(loss(writer).last.value == 0.75);
  add_row(writer, 3, 0.375);
  CHECK(loss(writer).best->step == 3);
}

TEST_CASE("only a writer that is told to log adds its measurements to the log file") {
  const TempFolder scratch;
  bv::log::open_file(scratch / "log.txt");
  for (const bool logged : {true, false}) {
    MetricWriter::Options options;
    options.logged = logged;
    MetricWriter writer(options);
    writer.begin_row(3);
    writer.measure(logged ? "loss" : "loss of another rank", 0.5);
    writer.end_row();
  }
  bv::log::flush();
  const std::string text = read_file(scratch / "log.txt");
  bv::log::close_file();
  CHECK(text.find("[3] loss = 0.5\n") != std::string::npos);
  CHECK(text.find("another rank") == std::string::npos);
}

TEST_CASE("what a restart made measure something else has no best value from before") {
  const TempFolder scratch;
  const auto write = [](MetricWriter& writer, int64_t step, double value) {
    writer.begin_row(step);
    for (const char* name : {"val/prec@1", "test/prec@1"}) writer.measure(name, value);
    writer.end_row();
  };
  {
    MetricWriter writer(options_in(scratch));
    write(writer, 1, 0.75);
    write(writer, 2, 0.25);
    write(writer, 3, 0.5);
  }
  const auto best = [&](int64_t changed_at) {
    MetricWriter::Options options = options_in(scratch, 3);
    options.measured_anew = {{"val/", changed_at}};
    MetricWriter writer(std::move(options));
    writer.write_report();
    writer.close();
    CHECK(writer.summary().find("test/prec@1")->best->value == 0.75);
    CHECK(writer.summary().find("val/prec@1")->last.value == 0.5);
    return writer.summary().find("val/prec@1")->best;
  };
  const auto report_has = [&](const std::string& note) {
    const std::string card =
        "<div class=\"label\">val/prec@1</div><div class=\"value\">0.5</div><div class=\"note\">";
    return read_file(scratch / "report.html").find(card + note + "</div>") != std::string::npos;
  };
  CHECK(best(1)->value == 0.5);
  CHECK(best(1)->step == 3);
  CHECK(report_has("best 0.5 at step 3"));
  CHECK_FALSE(best(3));
  CHECK(report_has("at step 3"));
}

TEST_CASE("json_number: the shortest text that reads back to the same double") {
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(3) == "3");
  CHECK(json_number(-2.5e-7) == "-2.5e-07");
  CHECK(json_number(0.1F) == "0.10000000149011612");
  CHECK(json_number(NAN) == "\"nan\"");
  CHECK(json_number(-NAN) == "\"nan\"");
  CHECK(json_number(INFINITY) == "\"inf\"");
  CHECK(json_number(-INFINITY) == "\"-inf\"");
  // Numbers without a pattern (a 64-bit linear congruential sequence), read back as a user would.
  uint64_t bits = 88172645463325252;
  for (int i = 0; i < 2000; ++i) {
    bits = bits * 6364136223846793005 + 1442695040888963407;
    double value;
    std::memcpy(&value, &bits, 8);
    if (!std::isfinite(value)) continue;
    CHECK(nlohmann::json::parse(json_number(value)).get<double>() == value);
  }
  for (const double value :
       {-0.0, std::numeric_limits<double>::denorm_min(), 1e22, 9.007199254740993e15,
        1.7976931348623157e308, 18446744073709551616.0}) {
    const double back = nlohmann::json::parse(json_number(value)).get<double>();
    CHECK(back == value);
    CHECK(std::signbit(back) == std::signbit(value));
  }
}

TEST_CASE("rows are written in order, names as measured, empty rows not at all") {
  const TempFolder scratch;
  MetricWriter writer(options_in(scratch));
  writer.begin_row(0);
  writer.measure("num_params", 1234);
  writer.end_row();
  writer.begin_row(1);
  writer.end_row();  // nothing measured
  writer.begin_row(2);
  writer.measure("forgotten", 1);
  writer.measure("z/last", 3);  // forgotten, too
  writer.begin_row(3);
  writer.measure("z/last", 1);
  writer.measure("a \"quoted\"\n", NAN);
  writer.measure("z/last", 0.25);  // overwrites in place
  REQUIRE(writer.row().size() == 2);
  CHECK(writer.row()[0] == bv::Row::value_type("z/last", 0.25));
  writer.end_row();
  writer.flush();
  CHECK(read_file(scratch / "metrics.jsonl") ==
        "{\"step\": 0, \"num_params\": 1234}\n"
        "{\"step\": 3, \"z/last\": 0.25, \"a \\\"quoted\\\"\\n\": \"nan\"}\n");
}

TEST_CASE("a step has one row: anything else is an internal error") {
  const TempFolder scratch;
  MetricWriter writer(options_in(scratch));
  add_row(writer, 5, 1);
  CHECK_THROWS_WITH(writer.end_row(),
                    "internal: error: the metric row for step 5 has already ended");
  CHECK_THROWS_WITH(add_row(writer, 5, 2),
                    "internal: error: a metric row for step 5 came after that for step 5");
  CHECK_THROWS_WITH(add_row(writer, 4, 2),
                    "internal: error: a metric row for step 4 came after that for step 5");
  CHECK_THROWS_WITH(writer.measure("x", 1), "internal: error: x was measured outside a metric row");
  writer.close();
  CHECK(read_file(scratch / "metrics.jsonl") == "{\"step\": 5, \"training_loss\": 1}\n");
}

TEST_CASE("many rows pass through the thread complete and in order") {
  const TempFolder scratch;
  constexpr int64_t kRows = 5000;  // more than the queue holds
  {
    MetricWriter writer(options_in(scratch));
    for (int64_t step = 1; step <= kRows; ++step)
      add_row(writer, step, 1.0 / static_cast<double>(step));
  }
  const std::vector<std::string> lines = bv::split(read_file(scratch / "metrics.jsonl"), '\n');
  REQUIRE(lines.size() == kRows + 1);
  for (int64_t step = 1; step <= kRows; ++step) {
    const auto row = nlohmann::json::parse(lines[static_cast<size_t>(step - 1)]);
    REQUIRE(row["step"] == step);
    REQUIRE(row["training_loss"].get<double>() == 1.0 / static_cast<double>(step));
  }
}

TEST_CASE("a restart drops later rows and a torn line, keeps the bytes of the rest") {
  const TempFolder scratch;
  const std::string kept =
      "{\"step\": 0, \"num_params\": 7}\n{\"step\":10,\"training_loss\" : 1e0, \"x\": \"inf\"}\n";
  bv::write_file_atomically(scratch / "metrics.jsonl",
                            kept + "{\"step\": 11, \"training_loss\": 2}\n{\"step\": 12, \"tra");
  MetricWriter writer(options_in(scratch, 10));
  CHECK(read_file(scratch / "metrics.jsonl") == kept);
  CHECK(writer.had_row(0));
  CHECK(writer.had_row(10));
  CHECK_FALSE(writer.had_row(5));
  CHECK_FALSE(writer.had_row(11));
  CHECK(writer.last_row() == 10);
  add_row(writer, 11, 3);
  CHECK(writer.last_row() == 11);
  writer.flush();
  CHECK(read_file(scratch / "metrics.jsonl") == kept + "{\"step\": 11, \"training_loss\": 3}\n");
}

TEST_CASE("a torn line is dropped even if its step is wanted") {
  const TempFolder scratch;
  bv::write_file_atomically(scratch / "metrics.jsonl",
                            "{\"step\": 1, \"a\": 1}\n{\"step\": 2, \"a\": 1}");
  const MetricWriter writer(options_in(scratch, 2));
  CHECK(writer.had_row(1));
  CHECK_FALSE(writer.had_row(2));  // may have been "1.5"
  CHECK(read_file(scratch / "metrics.jsonl") == "{\"step\": 1, \"a\": 1}\n");
}

TEST_CASE("the file is not replaced if there is nothing to drop") {
  const TempFolder scratch;
  bv::write_file_atomically(scratch / "metrics.jsonl", "{\"step\": 1, \"a\": 1}\n");
  struct stat before {
  }, after{};
  REQUIRE(stat((scratch / "metrics.jsonl").c_str(), &before) == 0);
  const MetricWriter writer(options_in(scratch, 1));
  REQUIRE(stat((scratch / "metrics.jsonl").c_str(), &after) == 0);
  CHECK(before.st_ino == after.st_ino);
}

TEST_CASE("a run from the beginning starts the file anew") {
  const TempFolder scratch;
  bv::write_file_atomically(scratch / "metrics.jsonl",
                            "{\"step\": 0, \"a\": 1}\n{\"step\": 1, \"a\": 1}\n");
  MetricWriter writer(options_in(scratch, 0));
  CHECK_FALSE(writer.had_row(0));
  add_row(writer, 0, 4);
  writer.flush();
  CHECK(read_file(scratch / "metrics.jsonl") == "{\"step\": 0, \"training_loss\": 4}\n");
}

TEST_CASE(
    "the report shows the rows, also those of before a restart, and that of the step itself") {
  const TempFolder scratch;
  bv::write_file_atomically(scratch / "metrics.jsonl", "{\"step\": 1, \"test/prec@1\": 0.125}\n");
  MetricWriter writer(options_in(scratch, 1));
  writer.begin_row(2);
  writer.measure("test/prec@1", 0.0625);
  bv::EvalDetails details;
  details.evaluator = "test";
  details.confusion = {{3, 1}, {0, 4}};
  writer.details(details);  // asked for within the row, written at its end
  writer.flush();
  CHECK_FALSE(bv::file_exists(scratch / "report.html"));
  writer.end_row();
  writer.flush();
  const std::string page = read_file(scratch / "report.html");
  CHECK(page.find("<div class=\"value\">0.0625</div><div class=\"note\">best 0.125 at step 1<") !=
        std::string::npos);
  CHECK(page.find("Confusion matrix") != std::string::npos);
}

TEST_CASE("no report is written into a folder that is not the run's any more") {
  const TempFolder scratch;
  MetricWriter::Options options = options_in(scratch);
  const std::string report = options.report_file;
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  std::atomic<bool> gone = false;
  options.check_folder = [&] {
    if (gone) throw Error(bv::Exit::storage, "w", "the workdir is gone");
  };
  MetricWriter writer(std::move(options));
  add_row(writer, 1, 0.5);
  writer.write_report();
  writer.flush();
  CHECK(bv::file_exists(report));
  std::filesystem::remove(report);
  gone = true;
  const std::function<void()> rows = writer.row_barrier();
  CHECK_THROWS_WITH(rows(), "w: error: the workdir is gone");
  writer.write_report();
  CHECK_THROWS_WITH(writer.flush(), "w: error: the workdir is gone");
  CHECK_FALSE(bv::file_exists(report));
}

TEST_CASE("closing writes a report that was asked for in a row that never ended") {
  const TempFolder scratch;
  {
    MetricWriter writer(options_in(scratch));
    add_row(writer, 1, 0.5);
    writer.begin_row(2);
    writer.measure("training_loss", NAN);
    writer.write_report();
  }
  CHECK(read_file(scratch / "report.html").find("training_loss") != std::string::npos);
  CHECK(read_file(scratch / "metrics.jsonl") == "{\"step\": 1, \"training_loss\": 0.5}\n");
}

TEST_CASE("every row is in the TensorBoard file too") {
  const TempFolder scratch;
  {
    MetricWriter writer(options_in(scratch));
    add_row(writer, 1, 0.5);
    add_row(writer, 2, 0.25);
  }
  const auto points = [&] {
    std::string bytes;
    for (const auto& entry : std::filesystem::directory_iterator(scratch / "tb")) {
      bytes += read_file(entry.path().string());
    }
    size_t found = 0;
    for (size_t at = 0; (at = bytes.find("training_loss", at)) != std::string::npos; ++at) ++found;
    return found;
  };
  CHECK(points() == 2);
  const MetricWriter restarted(options_in(scratch, 1));
  CHECK(points() == 1);
}

TEST_CASE("without a metrics file nothing is written, rows are still checked") {
  MetricWriter writer(MetricWriter::Options{});
  CHECK(writer.last_row() == -1);
  add_row(writer, 1, 1);
  CHECK_THROWS_AS(add_row(writer, 1, 1), Error);
  CHECK_FALSE(writer.had_row(1));
  writer.write_report();
  writer.flush();
  writer.close();
}

TEST_CASE("history: a long series is thinned evenly, keeps its ends and its extremes") {
  History history;
  constexpr int64_t kCount = 200'000;
  for (int64_t step = 1; step <= kCount; ++step) {
    double value = static_cast<double>(step);
    if (step == 177'777) value = -5;
    if (step == 123'457) value = 2e6;
    if (step % 1000 == 3) value = NAN;
    history.add(step, {{"a", value}});
  }
  const bv::Points& points = history.series.at("a");
  CHECK(points.size() <= History::kMostPoints);
  CHECK(points.size() > History::kMostPoints / 3);
  CHECK(points.front().first == 1);
  CHECK(points.back().first == kCount);
  const int64_t stride = points[1].first - points[0].first;
  for (size_t i = 1; i + 1 < points.size(); ++i) {
    REQUIRE(points[i].first - points[i - 1].first == stride);
  }
  const History::Summary& summary = history.summaries.at("a");
  CHECK(summary.count == kCount);
  CHECK(summary.min == std::pair<int64_t, double>{177'777, -5});
  CHECK(summary.max == std::pair<int64_t, double>{123'457, 2e6});
}
