// The output of a run on a terminal, in a pipe, and in the log file. With the real binary.
#include <signal.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"
#include "test/support/terminal.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const char* const kTerminalConfig = R"(
num_classes: 10
total_steps: 12
compute_threads: 1
input:
  data: {name: digits, split: train}
  batch_size: 32
  threads: 1
  pp: &pp value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [8], dense: 16}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
log_training_steps: 5
ckpt_steps: 4
evals:
  test: {type: classification, data: {name: digits, split: "test[:64]"}, pp_fn: *pp,
         loss_name: softmax_xent, log_steps: 6}
)";

const std::string kStamp = R"([IW]\d{4} \d\d:\d\d:\d\d )";
const std::string kNumber = R"([0-9.,e+-]+)";
const std::string kPrecision = R"((auto \((float32|bf16)\)))";
// The parts of the live line that are known from the start.
const std::string kSteps = R"(step [\d,]+/100,000 \d+\.\d%)";
const std::string kMemory = R"(  mem [\d.]+ [MG]iB)";
const std::string kMetric = "  test/prec@1 " + kNumber + R"( \(best )" + kNumber + R"(\))";
const std::string kSpeed = R"(  [1-9][\d,.]* img/s  data \d+%)";
const std::string kEta = R"(  ETA ([1-9]\d*[dhms])(\d+[hms])*)";

bool matches(const std::string& text, const std::string& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

// Checks that each line matches one of the patterns, and each pattern the given number of lines.
void check_lines(const std::vector<std::string>& lines,
                 const std::vector<std::pair<std::string, int>>& patterns) {
  std::vector<int> counts(patterns.size(), 0);
  for (const std::string& line : lines) {
    bool found = false;
    for (size_t i = 0; i < patterns.size() && !found; ++i) {
      found = matches(line, kStamp + patterns[i].first);
      counts[i] += found;
    }
    INFO(line);
    CHECK(found);
  }
  for (size_t i = 0; i < patterns.size(); ++i) {
    INFO(patterns[i].first);
    CHECK(counts[i] == patterns[i].second);
  }
}

std::vector<std::string> lines_after(const std::string& text, const std::string& mark) {
  const size_t at = text.find(mark);
  REQUIRE(at != std::string::npos);
  const size_t begin = text.find('\n', at) + 1;
  std::vector<std::string> lines = split(text.substr(begin), '\n');
  lines.pop_back();
  return lines;
}

struct TerminalRun {
  TempFolder dir;
  std::string out = dir / "out";
  std::vector<std::string> args = {"--config", dir / "c.yaml", "--workdir", out};
  TerminalRun() { write(dir / "c.yaml", kTerminalConfig); }
  std::vector<std::string> with(const std::vector<std::string>& more) const {
    std::vector<std::string> all = args;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

}  // namespace

TEST_CASE("in a pipe: a line per evaluation and per kept checkpoint, then what came out") {
  const TerminalRun f;
  const Finished finished = run(f.args);
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(finished.out.empty());
  CHECK(finished.err.find('\r') == std::string::npos);
  CHECK(finished.err.find('\033') == std::string::npos);
  const std::string first = "test/prec@1=" + kNumber,
                    rest =
                        "test/prec@5=" + kNumber + "  test/loss=" + kNumber + "  " + kNumber + "s";
  const std::string remark = R"( \(best so far\)| \(best )" + kNumber + R"( at step \d+\))";
  CHECK(std::regex_search(finished.err, std::regex(R"(\[0\] )" + first + "  " + rest + "\n")));
  CHECK(std::regex_search(
      finished.err,
      std::regex(
          "precision auto: (float32, because (this CPU has no bf16 instructions|float32 is faster "
          "than bf16 on this CPU, which has no AMX)|bf16, because this CPU has fast bf16 "
          "instructions)\n")));
  // The config may name a precision that `auto` does not select.
  const bool slow = finished.err.find("precision auto: float32") != std::string::npos;
  const Finished named = run({"--config", f.args[1], "--workdir", f.dir / "bf16", "--set",
                              "precision=bf16", "--set", "total_steps=2"});
  REQUIRE(named.code == 0);
  CHECK((named.err.find("precision bf16 saves no time here: ") != std::string::npos) == slow);
  check_lines(lines_after(finished.err, "Starting training loop..."),
              {{R"(\[6\] )" + first + "(" + remark + ")  " + rest, 1},
               {R"(\[12\] )" + first + "(" + remark + ")  " + rest, 1},
               {R"(\[12\] checkpoint kept: .*/out/ckpt/step-12)", 1},
               {R"(12 of 12 steps in \d+s, )" + kNumber + " img/s, precision " + kPrecision, 1},
               {"test/prec@1: best " + kNumber + R"( at step \d+, final )" + kNumber, 1},
               {"Report: /.*/out/report.html", 1},
               {"Logs/checkpoints are in .*/out", 1}});
  // The clock's lines, and the checkpoints that are not kept, are in the log file.
  const std::string log = read_file(f.out + "/log/rank-0.log");
  for (const char* text : {"Steps:12/12 [100.0%]", "Walltime:", "ETA:", "Total train time:"}) {
    INFO(text);
    CHECK(contains(log, text));
    CHECK_FALSE(contains(finished.err, text));
  }
  CHECK(count(log, "checkpoint saved: ") == 3);  // of the steps 1, 4 and 8
  CHECK(count(log, "NOTE: test evaluation...") == 3);
}

TEST_CASE("on a terminal: a live line; after kill -9 and a restart it shows no zeros") {
  const TerminalRun f;
  const std::vector<std::string> args =
      f.with({"--set", "total_steps=100000", "--set", "ckpt_steps=50", "--set",
              "evals.test.log_steps=20"});
  OnTerminal first(args, 200);
  if (!first.ok()) {
    WARN("skipped: no pseudo-terminals here");
    return;
  }
  const std::string loss = "  loss " + kNumber;
  INFO(first.text());
  REQUIRE(first.wait_for_drawn(kSteps + loss + kMetric + kSpeed + kMemory + kEta));
  REQUIRE(wait_for_file(f.out + "/ckpt/LAST"));
  first.kill(SIGKILL);
  CHECK(first.wait() == 128 + SIGKILL);
  const std::string anything = kSteps + "(  evaluating test)?(" + loss + ")?(" + kMetric + ")?(" +
                               kSpeed + ")?" + kMemory + "(" + kEta + ")?";
  for (const std::string& line : screen_of(first.text()).drawn) {
    INFO(line);
    CHECK(matches(line, anything));
  }
  CHECK_FALSE(exists(f.out + "/result.json"));

  OnTerminal second(args, 200);
  INFO(second.text());
  REQUIRE(second.wait_for_drawn(kSteps + loss + kMetric + kSpeed + kMemory + kEta));
  second.kill(SIGTERM);
  CHECK(second.wait() == 143);
  const Screen screen = screen_of(second.text());
  // The last logged loss and the best value so far are known from the start.
  REQUIRE_FALSE(screen.drawn.empty());
  CHECK(matches(screen.drawn.front(), kSteps + "(  evaluating test)?" + loss + kMetric + kMemory));
  for (const std::string& line : screen.drawn) {
    INFO(line);
    CHECK(matches(line, anything));
  }
  for (const std::string& line : screen.lines) {
    INFO(line);
    CHECK(matches(line, kStamp + ".*"));
    for (const char* part : {" 0 img/s", "ETA", "Walltime", "%"}) CHECK_FALSE(contains(line, part));
  }
  const auto result = nlohmann::json::parse(read_file(f.out + "/result.json"));
  const int64_t step = result.at("step");
  const std::vector<std::string> last(screen.lines.end() - 4, screen.lines.end());
  CHECK(matches(last[0], kStamp + human_count(step) +
                             R"( of 100,000 steps in \d+s since the restart at step )" +
                             R"([\d,]+, [\d,]+ img/s, precision )" + kPrecision));
  CHECK(matches(last[1],
                kStamp + "test/prec@1: best " + kNumber + R"( at step [\d,]+, final )" + kNumber));
  CHECK(matches(last[2], kStamp + "Report: /.*/out/report.html"));
  CHECK(matches(last[3], kStamp + "Stopped by a signal at step " + std::to_string(step) +
                             "; the checkpoint is committed. Run the same command again to "
                             "continue"));
}

TEST_CASE("a terminal narrower than the live line gets the start of it") {
  const TerminalRun f;
  constexpr size_t kColumns = 34;
  OnTerminal run(f.with({"--set", "total_steps=100000"}), kColumns);
  if (!run.ok()) {
    WARN("skipped: no pseudo-terminals here");
    return;
  }
  INFO(run.text());
  REQUIRE(run.wait_for_drawn(kSteps + "  loss .*"));
  run.kill(SIGTERM);
  CHECK(run.wait() == 143);
  CHECK(screen_of(run.text()).widest == kColumns - 1);
}

TEST_CASE("the index of a data set shows its progress on a terminal") {
  const TempFolder dir;
  for (const char* name : {"ant", "bee", "cat"})
    dir.write("photos/" + std::string(name) + "/1.jpg", flat_jpeg(100));
  OnTerminal index({"data", "index", dir / "photos"}, 100);
  if (!index.ok()) {
    WARN("skipped: no pseudo-terminals here");
    return;
  }
  CHECK(index.wait_for_drawn("listing the images: [123] of 3 folders"));
  CHECK(index.wait() == 0);
  const Screen screen = screen_of(index.text());
  CHECK(contains(screen.lines.front(), ": 3 examples, opened in "));
}

TEST_CASE("names in CSV and JSON do not control a terminal") {
  const TempFolder dir;
  dir.write("run/config.yaml", "total_steps: 10\n");
  dir.write("run/metrics.jsonl", "{\"step\": 10, \"val/\\u001b[31macc\\u009b\": 0.5}\n");
  for (const std::string format : {"csv", "json"}) {
    OnTerminal compare(
        {"compare", dir / "run", "--format", format, "--metrics", "val/\033[31macc\xC2\x9B"}, 100);
    if (!compare.ok()) {
      WARN("skipped: no pseudo-terminals here");
      return;
    }
    CHECK(compare.wait() == 0);
    INFO(compare.text());
    CHECK(contains(compare.text(), "[31macc"));
    CHECK_FALSE(contains(compare.text(), "\033[31m"));
    CHECK_FALSE(contains(compare.text(), "\xC2\x9B"));
  }
}

}  // namespace bv::test
