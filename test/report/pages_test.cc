// The report as a reader sees it: in a browser, narrow and wide, and for runs of every size.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

#include "lib/report/page/report.h"
#include "test/support/browser.h"
#include "test/support/folder.h"
#include "test/support/text.h"

namespace {

using bv::EvalDetails;
using bv::History;
using bv::Report;
using bv::test::count;
using bv::test::TempFolder;

constexpr size_t kMostBytes = 2'000'000;

// Numbers without a pattern, so that PNG cannot compress pictures of them.
uint32_t noise(uint32_t& state) {
  state = state * 1664525 + 1013904223;
  return state >> 16;
}

EvalDetails random_details(const std::string& name, size_t classes, int64_t side, bool long_names) {
  EvalDetails details;
  details.evaluator = name;
  details.step = 123456;
  uint32_t state = 1;
  for (size_t c = 0; c < classes; ++c) {
    details.class_names.push_back(long_names ? std::string(300, 'W') + std::to_string(c)
                                             : "kind of bird " + std::to_string(c));
    details.confusion.emplace_back();
    for (size_t g = 0; g < classes; ++g) {
      details.confusion[c].push_back(c == g ? 950 : static_cast<int64_t>(noise(state) % 40));
    }
  }
  for (int64_t i = 0; i < 24; ++i) {
    EvalDetails::Wrong wrong;
    wrong.index = i;
    wrong.name = "validation/n0" + std::to_string(1440764 + i) + "/ILSVRC2012_val_00000293.JPEG";
    wrong.truth = i % static_cast<int64_t>(classes);
    wrong.guess = (i + 1) % static_cast<int64_t>(classes);
    wrong.confidence = 0.99;
    wrong.height = wrong.width = side;
    wrong.channels = 3;
    for (int64_t b = 0; b < side * side * 3; ++b) {
      wrong.pixels.push_back(static_cast<uint8_t>(noise(state)));
    }
    details.wrong.push_back(wrong);
  }
  details.calibration.assign(15, {100, 0.8, 0.79});
  return details;
}

// A run like those of the docs: two evaluators, accuracies above 0.98, a constant learning rate.
History usual_history() {
  History history;
  for (int64_t step = 0; step <= 4400; step += 20) {
    const double at = static_cast<double>(step);
    bv::Row row{{"training_loss", 2.3 * std::exp(-at / 400) + 0.02 + 0.01 * std::sin(at)},
                {"l2_grads", 1.5 + std::sin(at)},
                {"global_schedule", 0.0012999999523162842 + (step % 40 == 0 ? 1e-10 : 0)},
                {"img/sec/core", 12345 + 300 * std::cos(at)},
                {"data_wait", 0.01},
                {"uptime", at / 100},
                {"epoch", at / 23}};
    if (step % 100 == 0) {
      row.emplace_back("test/prec@1",
                       0.992 - 0.9 * std::exp(-at / 300) - (step > 4000 ? 0.004 : 0));
      row.emplace_back("validation/prec@1", step == 2000 ? 1.0 : 0.985 - 0.9 * std::exp(-at / 300));
      row.emplace_back("test/loss", 0.03 + std::exp(-at / 300));
      row.emplace_back("test/confidence", 0.9);
    }
    history.add(step, row);
  }
  return history;
}

Report usual_report(const History& history) {
  Report report;
  report.title = "out/digits";
  report.config_yaml = "seed: 0\nnum_classes: 10\nname: " + std::string(200, 'x') + "\n";
  report.steps_per_epoch = 23;
  report.history = &history;
  report.details["test"] = random_details("test", 10, 8, false);
  report.facts = {{"Command", "bvtrain --config c.yaml --workdir " + std::string(120, 'y')},
                  {"Host", "node7"}};
  report.notes = {{"Skipped files", "train/a.jpg\ntrain/b.jpg"}};
  return report;
}

// More of everything than any real run has.
History largest_history() {
  History history;
  for (int64_t step = 1; step <= 3000; ++step) {
    bv::Row row;
    const double at = static_cast<double>(step);
    for (int e = 0; e < 40; ++e) {
      for (const char* name : {"prec@1", "prec@5", "loss", "ece"}) {
        row.emplace_back(fmt::format("evaluator-with-a-long-name-{}/{}", e, name),
                         0.5 + 0.4999 * std::sin(at * e));
      }
    }
    row.emplace_back("training_loss", std::exp(8 * std::sin(at)));
    row.emplace_back("global_schedule", at);
    row.emplace_back("l2_grads", std::exp(20 * std::sin(at)));
    history.add(1'000'000'000 + step * 1000, row);
  }
  bv::Row many;
  for (int i = 0; i < 300; ++i) many.emplace_back(fmt::format("other/metric-{}", i), i);
  history.add(2'000'000'000, many);
  return history;
}

Report largest_report(const History& history) {
  Report report;
  report.title = std::string(5000, 'T');
  report.config_yaml = std::string(3'000'000, '\'');
  report.steps_per_epoch = 1;
  report.history = &history;
  for (int e = 0; e < 40; ++e) {
    const std::string name = fmt::format("evaluator-with-a-long-name-{}", e);
    report.details[name] = random_details(name, e == 0 ? 1000 : 30, e < 3 ? 128 : 32, e % 2 == 1);
    report.details[name].calibration.assign(10000, {10, 0.5, 0.5});
  }
  for (int i = 0; i < 300; ++i) {
    report.facts.emplace_back("fact " + std::to_string(i), std::string(9000, '&'));
  }
  return report;
}

}  // namespace

TEST_CASE("report: readable in a browser, narrow and wide, light and dark") {
  const TempFolder dir;
  const History usual = usual_history(), largest = largest_history();
  History short_run;
  short_run.add(1, {{"training_loss", 2.5}, {"test/acc", 1.0}, {"global_schedule", 0}});
  const std::vector<std::string> pages{
      dir.write("usual.html", bv::render_report(usual_report(usual))),
      dir.write("largest.html", bv::render_report(largest_report(largest))),
      dir.write("short.html", bv::render_report({.title = "w", .history = &short_run})),
      dir.write("empty.html", bv::render_report({}))};
  CHECK(bv::test::page_problems(pages) == "");
}

TEST_CASE("report: the browser test finds what is wrong") {
  if (bv::test::page_problems({}).find("not installed") != std::string::npos) return;
  const TempFolder dir;
  const std::string bad = dir.write(
      "bad.html",
      "<!DOCTYPE html><body style='margin:0'><p style='font-size:9px'>small</p>"
      "<p style='color:#ccc'>pale</p><div style='width:1300px'>wide</div>"
      "<svg width='200' height='50'><text x='10' y='20'>one</text><text x='12' y='22'>two</text>"
      "<text x='190' y='45'>outside</text></svg>"
      "<img src='https://example.invalid/a.png'><script>console.log('hello')</script>");
  const std::string problems = bv::test::page_problems({bad});
  if (problems.empty()) return;  // no browser
  for (const std::string width : {"400", "1280"}) {
    for (const std::string scheme : {"light", "dark"}) {
      for (const std::string problem :
           {"\"small\" is 9.00 px high", "\"pale\" has a contrast", "the page is 1300 px wide",
            "\"two\" overlaps \"one\"", "\"outside\" leaves its chart",
            "asks for https://example.invalid/a.png", "console: ['hello']"}) {
        CAPTURE(problem);
        CHECK(problems.find(bad + ": " + width + " px, " + scheme + ": " + problem) !=
              std::string::npos);
      }
    }
  }
}

TEST_CASE("report: a page stays below 2 MB and says what it leaves out") {
  const History history = largest_history();
  const std::string page = bv::render_report(largest_report(history));
  CHECK(page.size() < kMostBytes);
  CHECK(page.size() > kMostBytes / 2);  // it is not empty either
  CHECK(count(page, "<h2>evaluator-with-a-long-name-") == 17);
  for (const std::string part :
       {"and 28 more lines, not drawn", "more charts would make this page too large",
        "The details of 23 more evaluators are left out.", "The whole config is in config.yaml.",
        "more metrics are in metrics.jsonl.", "Most confused pairs", "Wrongly classified"}) {
    CAPTURE(part);
    CHECK(page.find(part) != std::string::npos);
  }
}
