// report.html and its charts: well-formed for any run, hostile names escaped.
#include "lib/report/page/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/report/page/report_charts.h"
#include "lib/report/page/report_mistakes.h"
#include "test/report/page_checks.h"

namespace {

using bv::Chart;
using bv::EvalDetails;
using bv::History;
using bv::Point;
using bv::Report;
using bv::test::count;
using bv::test::page_of;
using bv::test::path_points;
using bv::test::tag_problem;

EvalDetails details_of(int64_t classes) {
  EvalDetails details;
  details.evaluator = "test";
  details.step = 1200;
  const auto n = static_cast<size_t>(classes);
  details.confusion.assign(n, std::vector<int64_t>(n, 0));
  for (size_t c = 0; c < n; ++c) {
    details.class_names.push_back("name" + std::to_string(c));
    details.confusion[c][c] = 9;
    details.confusion[c][(c + 1) % n] += 1;
  }
  EvalDetails::Wrong wrong;
  wrong.index = 17;
  wrong.name = "test/cat/<17>.jpg";
  wrong.truth = 0;
  wrong.guess = 1;
  wrong.confidence = 0.876;
  wrong.height = 2;
  wrong.width = 3;
  wrong.channels = 3;
  wrong.pixels.assign(18, 200);
  details.wrong.push_back(wrong);
  return details;
}

}  // namespace

TEST_CASE("the tag checker of this test finds what is wrong") {
  CHECK(tag_problem("<p a=\"1 > 0\">x &amp; y<br/></p>").empty());
  CHECK_FALSE(tag_problem("<p>").empty());
  CHECK_FALSE(tag_problem("<p><b></p></b>").empty());
  CHECK_FALSE(tag_problem("<p>1 < 2</p>").empty());
  CHECK_FALSE(tag_problem("<p>AT&T</p>").empty());
  CHECK_FALSE(tag_problem("<p a=\"<\"></p>").empty());
}

TEST_CASE("report of an empty history, of none, of one point") {
  const History empty;
  const std::string page = page_of(empty);
  CHECK(tag_problem(page).empty());
  CHECK(page.find("No measurements yet.") != std::string::npos);
  CHECK(page.find("no data yet") != std::string::npos);
  CHECK(tag_problem(bv::render_report({})).empty());

  History one;
  one.add(1, {{"training_loss", 2.5}});
  const std::string small = page_of(one);
  CHECK(tag_problem(small).empty());
  CHECK(path_points(small) == std::vector<size_t>{1, 1});  // per step, per epoch
  CHECK(count(small, "<circle") == 2);                     // which a path alone does not show
  CHECK(small.find("<title>1: 2.5</title>") != std::string::npos);
}

TEST_CASE("report: cards, one chart per metric suffix, nothing from elsewhere") {
  History history;
  history.add(
      0, {{"num_params", 1234567}, {"test/prec@1", 0.1}, {"test/loss", 2.3}, {"val/prec@1", 0.2}});
  for (int64_t step = 1; step <= 40; ++step) {
    history.add(step, {{"training_loss", 3.0 / static_cast<double>(step)},
                       {"global_schedule", 0.5},
                       {"uptime", static_cast<double>(step)},
                       {"img/sec/core", 1000.0 + static_cast<double>(step % 3)},
                       {"y/hostmem/rss", 5}});
  }
  history.add(41, {{"test/prec@1", 0.5}, {"test/loss", 0.7}, {"val/prec@1", 0.4}});
  history.add(42, {{"test/prec@1", 0.25}, {"test/loss", 0.9}, {"val/prec@1", 0.625}});
  const std::string page = page_of(history, details_of(10));
  CHECK(tag_problem(page).empty());
  const auto card = [&](const std::string& label, const std::string& value,
                        const std::string& note) {
    CAPTURE(label);
    CHECK(page.find("<div class=\"label\">" + label + "</div><div class=\"value\">" + value +
                    "</div><div class=\"note\">" + note + "</div>") != std::string::npos);
  };
  card("test/prec@1", "0.25", "best 0.5 at step 41");
  card("val/prec@1", "0.625", "best 0.625 at step 42");
  card("test/loss", "0.9", "best 0.7 at step 41");
  card("training_loss", "0.075", "at step 40");
  card("Images per second", "1,001", "per device, median");
  card("Wall time", "40s", "sum over all starts of the run");
  card("Parameters", "1,234,567", "");
  History slow;
  slow.add(1, {{"img/sec/core", 0.0125}});
  CHECK(page_of(slow).find("Images per second</div><div class=\"value\">0.0125<") !=
        std::string::npos);
  // Loss, loss per epoch, prec@1 (test and val together), test/loss, schedule, images per second.
  CHECK(count(page, "<svg class=\"chart\"") == 6);
  CHECK(path_points(page) == std::vector<size_t>{40, 3, 4, 3, 3, 3, 40, 40});
  for (const std::string outside : {"http", "<script", "url(", "@import", "src=\"/"}) {
    CAPTURE(outside);
    CHECK(page.find(outside) == std::string::npos);
  }
}

TEST_CASE("report: metrics of many classes leave room for the main metric and the training") {
  History history;
  for (int64_t step = 1; step <= 3; ++step) {
    bv::Row row{{"test/prec@1", 0.5},  {"training_loss", 1}, {"global_schedule", 0.5},
                {"img/sec/core", 100}, {"l2_grads", 1},      {"test/loss", 1}};
    for (int c = 0; c < 300; ++c) {
      for (const char* stem : {"test/f1@", "test/ap@"})
        row.emplace_back(stem + std::to_string(c), 0.5);
    }
    history.add(step, row);
  }
  const std::string page = page_of(history);
  CHECK(page.find("more charts would make this page too large") != std::string::npos);
  for (const std::string part : {"<div class=\"label\">test/prec@1</div>", "<th>test/prec@1</th>",
                                 ">prec@1</text>", ">Learning rate (multiplier of lr)</text>",
                                 ">Gradient norm</text>", ">Images per second per device</text>"}) {
    CAPTURE(part);
    CHECK(page.find(part) != std::string::npos);
  }
}

TEST_CASE("report: the wall time includes earlier starts, however long this one takes") {
  History history;
  history.add(10, {{"uptime", 20}});
  Report report;
  report.history = &history;
  const auto shows = [&](const std::string& time) {
    const std::string page = bv::render_report(report);
    return page.find("<div class=\"value\">" + time + "</div>") != std::string::npos &&
           page.find("<dd>" + time + ", sum over all starts</dd>") != std::string::npos;
  };
  CHECK(shows("20s"));
  report.earlier = {12, 22};  // the first start went on for two steps after its last row
  CHECK(shows("22s"));
  history.add(20, {{"uptime", 25}});  // the second start
  CHECK(shows("47s"));
}

TEST_CASE("report: training loss per epoch is the mean of the epoch's rows") {
  History history;
  history.add(1, {{"training_loss", 4}});
  history.add(10, {{"training_loss", 2}});  // still epoch 1
  history.add(11, {{"training_loss", 1}});  // epoch 2
  history.add(15, {{"training_loss", NAN}});
  history.add(35, {{"training_loss", 0.5}});  // epoch 4
  const Chart chart = bv::epoch_loss_chart(history, 10);
  REQUIRE(chart.lines.size() == 1);
  const std::vector<Point>& points = chart.lines[0].points;
  REQUIRE(points.size() == 3);
  CHECK((points[0].x == 1 && points[0].y == 3));
  CHECK((points[1].x == 2 && points[1].y == 1));
  CHECK((points[2].x == 4 && points[2].y == 0.5));
}

TEST_CASE("report: an epoch need not be a whole number of steps") {
  const auto last_epoch = [](int64_t steps, double steps_per_epoch) {
    History history;
    history.add(steps, {{"training_loss", 1}});
    return bv::epoch_loss_chart(history, steps_per_epoch).lines.at(0).points.back().x;
  };
  CHECK(last_epoch(32, 102.0 / 64) == 20);  // the 20th epoch ends within step 32
  CHECK(last_epoch(2, 102.0 / 64) == 1);
  CHECK(last_epoch(35, 7.0 / 3) == 15);
  CHECK(last_epoch(36, 7.0 / 3) == 16);  // although 35 / (7.0 / 3) < 15
}

TEST_CASE("report: the rows say in which epoch a step is, whatever the batch size is now") {
  History history;
  for (int64_t step = 1; step <= 5000; ++step) {
    const bool larger = step > 2000;  // 100 steps per epoch, and then 50
    const auto now = static_cast<double>(step);
    const double epoch = larger ? 20 + (now - 2000) / 50 : now / 100;
    bv::Row row = {{"epoch", epoch}};
    if (step % 10 == 0) row.emplace_back("training_loss", larger ? 1 : 2);
    history.add(step, row);
  }
  REQUIRE(history.series.at("epoch").size() < 4096);  // not each of the steps
  const Chart chart = bv::epoch_loss_chart(history, 50);
  const std::vector<Point>& points = chart.lines.at(0).points;
  REQUIRE(points.size() == 80);
  CHECK((points.front().x == 1 && points.back().x == 80));
  for (const Point& point : points) CHECK(point.y == (point.x > 20 ? 1 : 2));
}

TEST_CASE("report: long runs give lines of at most 500 points, raw and smoothed") {
  History history;
  for (int64_t step = 1; step <= 100000; ++step) {
    history.add(step, {{"training_loss", 1 + 0.5 * std::sin(static_cast<double>(step) * 0.7)}});
  }
  const Chart chart = bv::loss_chart(history);
  REQUIRE(chart.lines.size() == 2);
  CHECK(chart.lines[0].look == bv::Line::Look::faint);
  for (const bv::Line& line : chart.lines) {
    CHECK(line.points.size() == 500);
    CHECK(line.points.front().x == 1);
    CHECK(line.points.back().x == 100000);
  }
  for (size_t i = 50; i < 450; ++i) {
    REQUIRE(std::abs(chart.lines[1].points[i].y - 1) < 0.1);  // the waves are gone
  }
  CHECK(page_of(history).size() < 100000);
}

TEST_CASE("report: hostile names are text everywhere") {
  const std::string evil = "</svg><script>alert('1')</script>&\"\x01\xff";
  const std::string safe =
      "&lt;/svg&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;\xEF\xBF\xBD";
  History history;
  history.add(1, {{evil + "/prec@1", 0.5}, {"x/" + evil, 0.5}, {"global_schedule" + evil, 1}});
  EvalDetails details = details_of(3);
  details.evaluator = evil;
  details.class_names = {evil, "b"};  // and one name too few
  details.wrong[0].guess = -7;
  Report report;
  report.title = report.config_yaml = evil;
  report.history = &history;
  report.details[evil] = details;
  const std::string page = bv::render_report(report);
  CHECK(tag_problem(page).empty());
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("alert('") == std::string::npos);
  CHECK(page.find("<title>" + safe + "</title>") != std::string::npos);
  CHECK(page.find("<pre>" + safe + "</pre>") != std::string::npos);
  CHECK(page.find("truth " + safe + ", predicted b: 1 of 10") != std::string::npos);
  CHECK(page.find("class 2") != std::string::npos);
  CHECK(page.find("<b>class -7</b>") != std::string::npos);
}

TEST_CASE("report: confusion matrix up to 30 classes, then the most confused pairs") {
  const History history;
  const std::string small = page_of(history, details_of(30));
  CHECK(tag_problem(small).empty());
  CHECK(count(small, "<td") == 900);
  CHECK(count(small, "<td class=\"right\"") == 30);
  CHECK(count(small, "<td class=\"wrong\"") == 30);
  CHECK(small.find("truth name4, predicted name5: 1 of 10\">1</td>") != std::string::npos);
  CHECK(count(small, "class=\"bar\" style=\"width:90.0%\"") == 30);
  CHECK(small.find("90.0 % <small>9 of 10</small>") != std::string::npos);

  EvalDetails many = details_of(200);
  many.confusion[7][9] = 40;
  many.confusion[7][7] = 10;
  many.confusion[8] = std::vector<int64_t>(200, 0);  // a class that is not in the split
  const std::string large = page_of(history, many);
  CHECK(tag_problem(large).empty());
  CHECK(count(large, "<td>") == 30 * 4);
  const std::string first =
      "<tbody>\n<tr><td>name7</td><td>name9</td><td>40</td><td>78.4 %</td></tr>";
  CHECK(large.find(first) != std::string::npos);
  CHECK(large.find("The 30 worst of 199 classes.") != std::string::npos);
  CHECK(count(large, "class=\"bar\"") == 30);
  CHECK(large.find("class=\"bars\">\n<span class=\"name\">name7</span>") != std::string::npos);
}

TEST_CASE("report: details that do not fit together are left out") {
  EvalDetails details = details_of(3);
  details.confusion[1].pop_back();
  details.wrong[0].pixels.pop_back();
  const std::string page = page_of(History(), details);
  CHECK(tag_problem(page).empty());
  CHECK(page.find("Confusion") == std::string::npos);
  CHECK(page.find("<img") == std::string::npos);
}

TEST_CASE("report: wrong images carry their pixels") {
  const std::string page = page_of(History(), details_of(3));
  CHECK(page.find("width=\"3\" height=\"2\" alt=\"example 17\"") != std::string::npos);
  CHECK(page.find("name0 &#8594; <b>name1</b><small>88 % sure</small><small class=\"file\">"
                  "test/cat/&lt;17&gt;.jpg</small>") != std::string::npos);
}

TEST_CASE("report: large pictures are made smaller, and without room only the names remain") {
  EvalDetails details = details_of(3);
  details.wrong[0].height = details.wrong[0].width = 128;
  details.wrong[0].pixels.assign(size_t{128} * 128 * 3, 200);
  CHECK(bv::render_mistakes(details, 100'000).find("width=\"128\" height=\"128\"") !=
        std::string::npos);
  CHECK(bv::render_mistakes(details, 30'000).find("width=\"64\" height=\"64\"") !=
        std::string::npos);
  const std::string names = bv::render_mistakes(details, 2000);
  CHECK(names.find("<img") == std::string::npos);
  CHECK(names.find("test/cat/&lt;17&gt;.jpg") != std::string::npos);
  CHECK(bv::render_mistakes(details, 100).empty());
}

TEST_CASE("report: the table of metrics has the last and the best value") {
  History history;
  history.add(100, {{"test/prec@1", 0.975}, {"test/loss", 0.2}, {"test/confidence", 0.5}});
  history.add(200, {{"test/prec@1", 0.99225}, {"test/loss", 0.25}, {"test/confidence", 0.7}});
  history.add(300, {{"test/prec@1", 0.99}, {"test/loss", 0.125}, {"test/confidence", 0.6}});
  const std::string page = page_of(history);
  for (const std::string row :
       {"<tr><th>test/prec@1</th><td>0.99</td><td "
        "class=\"best\">0.99225</td><td>200</td><td>300</td>",
        "<tr><th>test/loss</th><td class=\"best\">0.125</td><td class=\"best\">0.125</td>"
        "<td>300</td><td>300</td>",
        "<tr><th>test/confidence</th><td>0.6</td><td class=\"best\"></td><td></td><td>300</td>"}) {
    CAPTURE(row);
    CHECK(page.find(row) != std::string::npos);
  }
}

TEST_CASE("the learning curve is a file of its own, loss beside the first metric") {
  History history;
  history.add(
      1, {{"training_loss", 2}, {"test/prec@1", 0.25}, {"test/prec@5", 0.5}, {"test/loss", 2.1}});
  history.add(
      2, {{"training_loss", 1}, {"test/prec@1", 0.5}, {"test/prec@5", 0.9}, {"test/loss", 1.1}});
  const std::string svg = bv::render_learning_curve(history);
  CHECK(tag_problem(svg).empty());
  CHECK(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\"") == 0);
  CHECK(path_points(svg) == std::vector<size_t>{2, 2, 2});
  CHECK(svg.find(">prec@1</text>") != std::string::npos);
  CHECK(svg.find(">prec@5</text>") == std::string::npos);
}
