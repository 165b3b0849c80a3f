// skipped.jsonl: each example once, what a restart keeps, damaged lines, and the report's section.
#include "lib/report/skipped_examples.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>

#include "lib/report/log.h"
#include "lib/report/page/report_skipped.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/limits.h"
#include "test/support/text.h"
#include "test/support/variable.h"

namespace bv::test {
namespace {

const std::string kCat =
    "{\"data\": \"input\", \"step\": 3, \"example\": \"train/cat/1.jpg\", \"reason\": \"no "
    "end\"}\n";
const std::string kDog =
    "{\"data\": \"input\", \"step\": 7, \"example\": \"train/dog/1.jpg\", \"reason\": \"empty\"}\n";
const std::string kTest =
    "{\"data\": \"evals.test\", \"step\": 7, \"example\": \"train/cat/1.jpg\", \"reason\": "
    "\"no end\"}\n";

// Lists the three examples in `file`.
void fill(const std::string& file) {
  SkippedExamples skipped;
  skipped.open(file, -1);
  skipped.add({"input", 3, "train/cat/1.jpg", "no end"});
  skipped.add({"input", 7, "train/dog/1.jpg", "empty"});
  skipped.add({"evals.test", 7, "train/cat/1.jpg", "no end"});
  skipped.sync();
}

}  // namespace

TEST_CASE("each skipped example of a data set is listed once") {
  const TempFolder dir;
  SkippedExamples skipped;
  skipped.open(dir / "s.jsonl", -1);
  CHECK(skipped.empty());
  CHECK(!exists(dir / "s.jsonl"));
  skipped.add({"input", 3, "train/cat/1.jpg", "no end"});
  skipped.add({"input", 4, "train/cat/1.jpg", "other"});
  skipped.add({"evals.test", 7, "train/cat/1.jpg", "no end"});
  CHECK(read_file(dir / "s.jsonl") == kCat + kTest);
  CHECK(skipped.count("input") == 1);
  CHECK(skipped.count("evals.other") == 0);
  CHECK(skipped.contains("input", "train/cat/1.jpg"));
  CHECK_FALSE(skipped.contains("input", "train/dog/1.jpg"));
  CHECK(skipped.text() ==
        "2 examples were skipped so far (evals.test: 1, input: 1), see " + (dir / "s.jsonl"));
}

TEST_CASE("entries that the disk refuses for a while are written later, each once") {
  const TempFolder dir;
  const std::string file = dir / "s.jsonl";
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  std::signal(SIGXFSZ, SIG_IGN);
  SkippedExamples skipped;
  skipped.open(file, -1);
  skipped.add({"input", 3, "train/cat/1.jpg", "no end"});
  {
    const Limit limit(RLIMIT_FSIZE, kCat.size() + 5);  // a part of the next entry
    skipped.add({"input", 7, "train/dog/1.jpg", "empty"});
    CHECK(skipped.count("input") == 2);
    CHECK(error_of([&] { skipped.sync(); }, Exit::storage) ==
          file + ": error: cannot write: File too large");
    skipped.add({"evals.test", 7, "train/cat/1.jpg", "no end"});
    CHECK(read_file(file) == kCat + kDog.substr(0, 5));
  }
  skipped.sync();  // there is room again
  CHECK(read_file(file) == kCat + kDog + kTest);
}

TEST_CASE("a list of skipped examples that cannot be created is created later") {
  const TempFolder dir;
  const std::string file = dir / "new/s.jsonl";
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  log::open_file(dir / "log");
  const auto warnings = [&] {
    log::flush();
    return count(read_file(dir / "log"), "the entries are kept in memory and written later");
  };
  SkippedExamples skipped;
  skipped.open(file, -1);
  skipped.add({"input", 3, "train/cat/1.jpg", "no end"});
  CHECK(warnings() == 1);
  CHECK(error_of([&] { skipped.sync(); }, Exit::storage) ==
        file + ": error: cannot write: No such file or directory");
  dir.make("new");
  skipped.sync();
  CHECK(read_file(file) == kCat);
  // A second time is said as well, but once.
  std::filesystem::remove(file);
  skipped.add({"input", 7, "train/dog/1.jpg", "empty"});
  skipped.add({"input", 8, "train/dog/2.jpg", "empty"});
  CHECK(warnings() == 2);
}

TEST_CASE("a list of skipped examples is not created in a folder that is not the run's any more") {
  const TempFolder dir;
  const std::string file = dir / "s.jsonl";
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  bool gone = true;
  SkippedExamples skipped;
  skipped.open(file, -1, [&] {
    if (gone) throw Error(Exit::storage, "w", "the workdir is gone");
  });
  skipped.add({"input", 3, "train/cat/1.jpg", "no end"});
  CHECK(error_of([&] { skipped.sync(); }, Exit::storage) == "w: error: the workdir is gone");
  CHECK_FALSE(file_exists(file));
  gone = false;
  skipped.sync();
  CHECK(read_file(file) == kCat);
}

TEST_CASE("a restart keeps the skipped examples up to its checkpoint") {
  const TempFolder dir;
  const std::string file = dir / "s.jsonl";
  fill(file);
  CHECK(read_file(file) == kCat + kDog + kTest);
  {
    SkippedExamples all;
    CHECK(all.open(file, 7) == kCat + kDog + kTest);
    CHECK(all.count("input") == 2);
  }
  {
    SkippedExamples some;
    CHECK(some.open(file, 6) == kCat);
    CHECK(read_file(file) == kCat);
    some.add({"input", 5, "train/cat/1.jpg", "no end"});
    some.add({"input", 7, "train/dog/1.jpg", "empty"});
    CHECK(read_file(file) == kCat + kDog);
    SkippedExamples other;  // of another rank
    other.adopt(kCat);
    other.add({"input", 7, "train/dog/1.jpg", "empty"});
    CHECK(other.examples("input") == some.examples("input"));
  }
  SkippedExamples none;
  CHECK(none.open(file, 2).empty());
  CHECK(!exists(file));
}

TEST_CASE("the entries of an evaluator that runs again at a step are removed") {
  const TempFolder dir;
  const std::string file = dir / "s.jsonl";
  remove_skipped(file, 7, {"evals.test"});
  CHECK(!exists(file));
  const std::string part = replace_all(kTest, "evals.test", "evals.test.train");
  const std::string other = replace_all(kTest, "evals.test", "evals.tests");
  const std::string earlier = replace_all(kTest, "7", "5");
  write(file, earlier + kDog + kTest + part + other + "{\"data\": \"inp");
  remove_skipped(file, 7, {"evals.test", "evals.none"});
  CHECK(read_file(file) == earlier + kDog + other + "{\"data\": \"inp");
  write(file, kTest);
  remove_skipped(file, 7, {"evals.test"});
  CHECK(read_file(file).empty());
}

TEST_CASE("damaged lines of skipped.jsonl are dropped") {
  const TempFolder dir;
  const std::string file = dir / "s.jsonl";
  for (const std::string& damaged :
       {std::string("x\n"), std::string("{}\n"), std::string("[1]\n"), std::string(3, '\0') + "\n",
        std::string("{\"data\": 1, \"step\": 1, \"example\": \"a\", \"reason\": \"b\"}\n"),
        std::string("{\"data\": \"a\", \"step\": 1.5, \"example\": \"a\", \"reason\": \"b\"}\n"),
        kCat}) {  // a second time
    write(file, kCat + damaged + kDog + "{\"data\": \"inp");
    SkippedExamples skipped;
    CHECK(skipped.open(file, 9) == kCat + kDog);
    CHECK(read_file(file) == kCat + kDog);
  }
}

TEST_CASE("the files of a skipped row are listed and kept by a restart") {
  const TempFolder dir;
  using Files = std::vector<std::string>;
  const std::string lines =
      "{\"data\": \"input\", \"step\": 3, \"example\": \"m.csv:4\", \"reason\": \"gone\", "
      "\"files\": [\"a.jpg\",\"b.jpg\"]}\n"
      "{\"data\": \"input\", \"step\": 3, \"example\": \"m.csv:9\", \"reason\": \"one cell\", "
      "\"files\": []}\n";
  {
    SkippedExamples skipped;
    skipped.open(dir / "s.jsonl", 0);
    skipped.add({"input", 3, "m.csv:4", "gone", Files{"a.jpg", "b.jpg"}});
    skipped.add({"input", 3, "m.csv:9", "one cell", Files{}});
    skipped.sync();
  }
  CHECK(read_file(dir / "s.jsonl") == lines);
  SkippedExamples again;
  CHECK(again.open(dir / "s.jsonl", 3) == lines);
  REQUIRE(again.summaries().size() == 1);
  CHECK(again.summaries()[0].first[0].files == Files{"a.jpg", "b.jpg"});
  CHECK(again.summaries()[0].first[1].files == Files{});
}

TEST_CASE("names that are not UTF-8 are known again") {
  const TempFolder dir;
  SkippedExamples skipped;
  skipped.open(dir / "s.jsonl", -1);
  skipped.add({"input", 1, "a\"\n\xFF.jpg", "<b>"});
  SkippedExamples again;
  again.open(dir / "s.jsonl", 1);
  CHECK(again.contains("input", "a\"\n\xEF\xBF\xBD.jpg"));
}

TEST_CASE("the report shows the number and the first names of skipped examples") {
  CHECK(render_skipped({}).empty());
  SkippedExamples skipped;
  for (int i = 0; i < 12; ++i)
    skipped.add({"input", i, "<" + std::to_string(i) + ">.jpg", "a & b"});
  const std::string html = render_skipped(skipped.summaries());
  CHECK_THAT(html, Catch::Contains("input: 12 skipped"));
  CHECK_THAT(html, Catch::Contains("<td>&lt;9&gt;.jpg</td><td>a &amp; b</td><td>9</td>"));
  CHECK_THAT(html, !Catch::Contains("10&gt;"));
  CHECK_THAT(html, Catch::Contains("and 2 more"));
}

}  // namespace bv::test
