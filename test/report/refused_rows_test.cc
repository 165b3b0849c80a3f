// Rows, TensorBoard files and reports that cannot be written, temporarily or permanently.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <memory>

#include "lib/report/metric_file.h"
#include "lib/util/file.h"
#include "test/report/metric_writer_support.h"
#include "test/support/limits.h"
#include "test/support/text.h"
#include "test/support/variable.h"

namespace {

using bv::Exit;
using bv::MetricWriter;
using bv::read_file;
using bv::test::add_row;
using bv::test::code_of;
using bv::test::Limit;
using bv::test::options_in;
using bv::test::TempFolder;
using bv::test::Variable;

}  // namespace

TEST_CASE("the barrier of the rows waits for those before it, and throws if they are lost") {
  const TempFolder scratch;
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  auto options = options_in(scratch);
  options.tensorboard_dir.clear();
  auto writer = std::make_unique<MetricWriter>(options);
  for (int64_t step = 1; step <= 500; ++step) add_row(*writer, step, 1);
  const std::function<void()> barrier = writer->row_barrier();
  add_row(*writer, 501, 1);
  barrier();
  CHECK(bv::last_row_step(scratch / "metrics.jsonl") >= 500);
  writer->close();
  barrier();  // also when the writer has closed
  writer = std::make_unique<MetricWriter>(options_in(scratch, 501));
  writer->flush();
  std::signal(SIGXFSZ, SIG_IGN);
  const Limit limit(RLIMIT_FSIZE, std::filesystem::file_size(scratch / "metrics.jsonl") + 5);
  add_row(*writer, 502, 1);
  CHECK(code_of(writer->row_barrier()) == Exit::storage);
}

TEST_CASE("rows that the disk refuses for a while are written later, each once") {
  const TempFolder scratch;
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  std::signal(SIGXFSZ, SIG_IGN);
  {
    MetricWriter writer(options_in(scratch));
    add_row(writer, 1, 0.5);
    writer.flush();
    std::function<void()> barrier;
    {
      const Limit limit(RLIMIT_FSIZE, std::filesystem::file_size(scratch / "metrics.jsonl") + 5);
      add_row(writer, 2, 0.25);
      barrier = writer.row_barrier();
      CHECK(code_of(barrier) == Exit::storage);
    }
    barrier();  // there is room again
    add_row(writer, 3, 0.125);
    writer.write_report();
    writer.flush();
    const Limit limit(RLIMIT_FSIZE, std::filesystem::file_size(scratch / "metrics.jsonl") + 5);
    add_row(writer, 4, 1);
    CHECK(code_of([&] { writer.flush(); }) == Exit::storage);  // nothing comes after it
  }
  CHECK(read_file(scratch / "metrics.jsonl") ==
        "{\"step\": 1, \"training_loss\": 0.5}\n{\"step\": 2, \"training_loss\": 0.25}\n"
        "{\"step\": 3, \"training_loss\": 0.125}\n{\"ste");
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(scratch / "tb"))
    events += read_file(entry.path().string());
  CHECK(bv::test::count(events, "training_loss") == 3);
  CHECK(read_file(scratch / "report.html").find("training_loss") != std::string::npos);
}

TEST_CASE("a TensorBoard file or a report that is refused for a while is written later") {
  const TempFolder scratch;
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  std::signal(SIGXFSZ, SIG_IGN);
  MetricWriter writer(options_in(scratch));
  add_row(writer, 1, 0.5);
  writer.flush();
  const std::string events = std::filesystem::directory_iterator(scratch / "tb")->path().string();
  {
    const Limit limit(RLIMIT_FSIZE, std::filesystem::file_size(events) + 3);
    add_row(writer, 2, 0.25);
    CHECK(code_of([&] { writer.flush(); }) == Exit::storage);
    CHECK(bv::last_row_step(scratch / "metrics.jsonl") == 2);  // this file is smaller
    CHECK(bv::test::count(read_file(events), "training_loss") == 1);
  }
  writer.flush();
  CHECK(bv::test::count(read_file(events), "training_loss") == 2);

  std::filesystem::create_directory(scratch / "report.html");
  writer.write_report();
  CHECK(code_of([&] { writer.flush(); }) == Exit::storage);
  std::filesystem::remove(scratch / "report.html");
  add_row(writer, 3, 0.125);
  writer.flush();
  CHECK(bv::test::count(read_file(events), "training_loss") == 3);
  CHECK(bv::test::count(read_file(scratch / "report.html"), "training_loss") > 0);
  CHECK(bv::test::count(read_file(scratch / "metrics.jsonl"), "\n") == 3);
}

TEST_CASE("rows that cannot be synced never count as being on disk") {
  const TempFolder scratch;
  MetricWriter writer(options_in(scratch));
  add_row(writer, 1, 0.5);
  writer.flush();
  const std::string file = scratch / "metrics.jsonl", aside = scratch / "aside";
  std::filesystem::rename(file, aside);
  const std::function<void()> barrier = writer.row_barrier();
  CHECK_THROWS_AS(barrier(), bv::UnsyncedRows);
  std::filesystem::rename(aside, file);
  CHECK_THROWS_AS(barrier(), bv::UnsyncedRows);
}

TEST_CASE("rows that are refused twice in a row end the run") {
  const TempFolder scratch;
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  std::signal(SIGXFSZ, SIG_IGN);
  MetricWriter writer(options_in(scratch));
  const Limit limit(RLIMIT_FSIZE, 5);
  add_row(writer, 1, 0.5);
  CHECK(code_of(writer.row_barrier()) == Exit::storage);
  add_row(writer, 2, 0.5);
  CHECK(code_of(writer.row_barrier()) == Exit::storage);
  CHECK(code_of([&] { add_row(writer, 3, 0.5); }) == Exit::storage);
}

TEST_CASE("a report that cannot be written does not fail the barrier of rows that are on disk") {
  const TempFolder scratch;
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  std::filesystem::create_directory(scratch / "report.html");
  MetricWriter writer(options_in(scratch));
  add_row(writer, 1, 0.5);
  const std::function<void()> barrier = writer.row_barrier();
  writer.write_report();
  CHECK(code_of([&] { writer.flush(); }) == Exit::storage);
  CHECK(code_of(barrier) == Exit::ok);
  CHECK(bv::last_row_step(scratch / "metrics.jsonl") == 1);
  CHECK(code_of([&] { writer.close(); }) == Exit::storage);  // the run ends all the same
}

TEST_CASE("a writer's failure surfaces as a storage error") {
  const TempFolder scratch;
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  SECTION("the folder is removed") {
    MetricWriter writer(options_in(scratch));
    add_row(writer, 1, 1);
    writer.flush();
    std::filesystem::remove_all(scratch / "");
    add_row(writer, 2, 1);
    CHECK(code_of([&] { writer.flush(); }) == Exit::storage);
    CHECK(code_of([&] { writer.close(); }) == Exit::storage);
  }
  SECTION("the disk is full") {
    auto options = options_in(scratch);
    options.tensorboard_dir.clear();
    MetricWriter writer(options);
    std::signal(SIGXFSZ, SIG_IGN);
    const Limit limit(RLIMIT_FSIZE, 60);
    writer.begin_row(1);
    writer.measure(std::string(100, 'x'), 1);
    writer.end_row();
    CHECK_THROWS_WITH(writer.close(),
                      scratch / "metrics.jsonl" + ": error: cannot write: File too large");
  }
  SECTION("nobody asks: the destructor does not throw") {
    const MetricWriter::Options options = options_in(scratch);
    auto writer = std::make_unique<MetricWriter>(options);
    std::filesystem::remove_all(scratch / "");
    add_row(*writer, 1, 1);
    writer.reset();
  }
  SECTION("the report cannot be written") {
    std::filesystem::create_directory(scratch / "report.html");
    MetricWriter writer(options_in(scratch));
    writer.write_report();
    CHECK(code_of([&] { writer.flush(); }) == Exit::storage);
  }
  SECTION("the folder is not there") {
    auto options = options_in(scratch);
    options.metrics_file = scratch / "none/metrics.jsonl";
    CHECK(code_of([&] { MetricWriter writer(options); }) == Exit::storage);
  }
}
