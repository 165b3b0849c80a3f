// Charts: axes, lines and marks.
#include "lib/report/page/chart.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/report/page/chart_axis.h"
#include "lib/report/page/report_charts.h"
#include "test/report/page_checks.h"

using bv::Chart;
using bv::History;
using bv::Point;
using bv::test::count;
using bv::test::page_of;
using bv::test::path_points;
using bv::test::tag_problem;

TEST_CASE("charts: values that are not finite make gaps and no text") {
  History history;
  for (int64_t step = 1; step <= 20; ++step) {
    const double bad[] = {NAN, INFINITY, -INFINITY, 1e308};
    history.add(step,
                {{"training_loss", step % 5 == 0 ? bad[step / 5 - 1] : 1.0}, {"test/prec@1", NAN}});
  }
  const std::string page = page_of(history);
  CHECK(tag_problem(page).empty());
  CHECK(path_points(page)[0] == 16);
  const std::string curve = bv::render_learning_curve(history);
  CHECK(tag_problem(curve).empty());
  const size_t start = curve.find(" d=\"") + 4;
  CHECK(count(curve.substr(start, curve.find('"', start) - start), "M") == 4);
  for (const std::string& svg : {page, curve}) {
    CHECK(svg.find("\"nan") == std::string::npos);
    CHECK(svg.find("\"inf") == std::string::npos);
    CHECK(svg.find("\"-nan") == std::string::npos);
  }
}

TEST_CASE("charts: the best value is marked, also if thinning would drop its point") {
  History history;
  for (int64_t step = 1; step <= 2000; ++step) {
    history.add(step, {{"test/prec@1", step == 778 ? 0.75 : 0.5}, {"test/confidence", 0.5}});
  }
  const std::vector<Chart> charts = bv::metric_charts(history);
  REQUIRE(charts.size() == 2);
  const bv::Line& line = charts[0].lines.at(0);
  REQUIRE(line.best.has_value());
  CHECK((line.best->x == 778 && line.best->y == 0.75));
  CHECK(std::count_if(line.points.begin(), line.points.end(),
                      [](const Point& point) { return point.y == 0.75; }) == 1);
  CHECK(std::is_sorted(line.points.begin(), line.points.end(),
                       [](const Point& a, const Point& b) { return a.x < b.x; }));
  const std::string svg = bv::chart_svg(charts[0]);
  CHECK(svg.find("<title>best: 0.75 at 778</title>") != std::string::npos);
  CHECK(svg.find(">test (best 0.75)</text>") != std::string::npos);
  CHECK(bv::chart_svg(charts[1]).find("best") == std::string::npos);
}

TEST_CASE("charts: the main metric comes first, metrics of a single class last") {
  History history;
  for (int64_t step = 1; step <= 2; ++step) {
    history.add(step, {{"training_loss", 1},
                       {"test/ap@0", 0.5},
                       {"test/auroc", 0.5},
                       {"test/confidence", 0.5},
                       {"test/f1@0", 0.5},
                       {"test/loss", 1},
                       {"test/prec@1", 0.5},
                       {"test/prec@5", 0.5},
                       {"val/prec@1", 0.5}});
  }
  std::vector<std::string> names;
  for (const bv::EvalMetric& metric : bv::eval_metrics(history)) names.push_back(metric.name);
  CHECK(names == std::vector<std::string>{"val/prec@1", "test/prec@1", "test/auroc", "test/prec@5",
                                          "test/loss", "test/confidence", "test/ap@0",
                                          "test/f1@0"});
  CHECK(bv::metric_charts(history).size() == 7);
  CHECK(bv::render_learning_curve(history).find(">prec@1</text>") != std::string::npos);
}

TEST_CASE("charts: accuracies show their errors on a logarithmic axis, whatever the values") {
  for (const std::vector<double>& values : std::vector<std::vector<double>>{
           {0.1, 0.2}, {0.9, 0.99, 0.999}, {0.5}, {1}, {1, 1, 0.5}, {0, 0.25}, {0.99}}) {
    CAPTURE(values);
    History history;
    for (size_t i = 0; i < values.size(); ++i) {
      history.add(static_cast<int64_t>(i), {{"test/prec@1", values[i]}});
    }
    const std::string svg = bv::chart_svg(bv::metric_charts(history).at(0));
    CHECK(svg.find(">error: 1 - prec@1, log scale</text>") != std::string::npos);
    CHECK(tag_problem(svg).empty());
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
    CHECK(count(svg, "class=\"grid\"") >= 2);
  }
  History percent;  // a user's metric with this name is not a share
  percent.add(1, {{"test/acc", 97.5}});
  CHECK(bv::chart_svg(bv::metric_charts(percent).at(0)).find("error") == std::string::npos);
}

TEST_CASE("charts: on an error axis each tenfold smaller error is as far up") {
  Chart chart;
  chart.error_scale = true;
  chart.lines.push_back({"a", {{0, 0.9}, {1, 0.99}, {2, 0.999}, {3, 1}}, 0, {}, {}});
  const bv::ChartAxis axis = bv::chart_y_axis(chart, 200, 0);
  CHECK(axis.place(0.9) - axis.place(0.99) == Approx(axis.place(0.99) - axis.place(0.999)));
  CHECK(axis.place(0.999) > axis.place(0.99));  // lower: a smaller error
  CHECK(axis.place(1) == 200);  // an error of 0 is at the end of the axis, below its greatest
}

TEST_CASE("charts: values that differ by rounding are drawn flat") {
  for (const double value : {0.0013, 1.0, 1e-9, 250000.0, 0.0, -3.0}) {
    CAPTURE(value);
    Chart chart;
    chart.lines.push_back({"lr", {{0, value}, {1, value * (1 + 1e-7)}, {2, value}}, 0, {}, {}});
    const bv::ChartAxis axis = bv::chart_y_axis(chart, 200, 0);
    CHECK(std::abs(axis.place(value) - axis.place(value * (1 + 1e-7))) < 0.01);
    CHECK(axis.place(value) > 0);
    CHECK(axis.place(value) <= 200);
    CHECK(axis.ticks.size() >= 2);
  }
}

TEST_CASE("charts: a schedule's axis begins at 0") {
  History history;
  for (int64_t step = 1; step < 9; ++step) history.add(step, {{"global_schedule", 1.0}});
  const std::string svg = bv::chart_svg(bv::training_charts(history).at(0));
  CHECK(svg.find(">0</text>\n<line class=\"grid\"") != std::string::npos);
}

TEST_CASE("charts: skipped steps and rollbacks are among the charts of the training") {
  History history;
  history.add(1, {{"skipped_steps", 2}, {"rollbacks", 1}, {"val/loss", 1}});
  CHECK(bv::training_charts(history).size() == 2);
  CHECK(bv::metric_charts(history).size() == 1);
}

TEST_CASE("ticks are round and cover the range") {
  CHECK(bv::nice_ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(bv::nice_ticks(0, 600, 6) == std::vector<double>{0, 100, 200, 300, 400, 500, 600});
  CHECK(bv::nice_ticks(-3, 4, 4) == std::vector<double>{-4, -2, 0, 2, 4});
  for (const double scale : {1e-12, 3e-3, 0.7, 42.0, 1e9}) {
    const std::vector<double> ticks = bv::nice_ticks(scale, 3.3 * scale, 5);
    CHECK(ticks.size() >= 4);
    CHECK(ticks.size() <= 9);
    CHECK(ticks.front() <= scale);
    CHECK(ticks.back() >= 3.3 * scale * (1 - 1e-9));
  }
  CHECK(bv::nice_ticks(5, 5, 5) == std::vector<double>{5});
}

TEST_CASE("thinning keeps both ends, smoothing leaves a constant and the ends' places alone") {
  std::vector<Point> points;
  for (int i = 0; i < 101; ++i) points.push_back({static_cast<double>(i), i == 50 ? NAN : 3.0});
  CHECK(bv::thinned(points, 200).size() == 101);
  const std::vector<Point> few = bv::thinned(points, 11);
  REQUIRE(few.size() == 11);
  CHECK((few[0].x == 0 && few[1].x == 10 && few[10].x == 100));
  const std::vector<Point> smooth = bv::smoothed(points, 10);
  REQUIRE(smooth.size() == points.size());
  for (const Point& point : smooth) CHECK(point.y == 3.0);  // a lone NaN is bridged
  CHECK(bv::smoothed({}, 10).empty());
}

TEST_CASE("charts: far apart positive losses get a logarithmic axis, others do not") {
  History history;
  for (int64_t step = 1; step <= 50; ++step) {
    history.add(step, {{"training_loss", std::exp(-0.2 * static_cast<double>(step))}});
  }
  CHECK(bv::render_learning_curve(history).find("Loss per step (log scale)") != std::string::npos);
  history.add(51, {{"training_loss", 5e-324}});  // its logarithm is fine, a bit below it is zero
  CHECK(bv::render_learning_curve(history).find("nan") == std::string::npos);
  CHECK(bv::render_learning_curve(history).find("inf") == std::string::npos);
  history.add(52, {{"training_loss", 0}});
  CHECK(bv::render_learning_curve(history).find("log scale") == std::string::npos);
}
