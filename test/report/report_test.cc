// report.html and its charts: well-formed for whatever the run was, hostile names escaped.
#include "lib/report/report.h"

#include <spng.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/report/chart_axis.h"
#include "lib/report/png.h"
#include "lib/report/report_charts.h"
#include "lib/report/report_mistakes.h"
#include "test/support/text.h"

namespace {

using bv::Chart;
using bv::EvalDetails;
using bv::History;
using bv::Point;
using bv::Report;
using bv::test::count;

// "" if every element is closed in order, attributes are quoted and text has no stray < or &;
// otherwise what is wrong.
std::string tag_problem(const std::string& page) {
  std::vector<std::string> open;
  size_t at = 0;
  while (at < page.size()) {
    const size_t next = page.find_first_of("<&", at);
    if (next == std::string::npos) break;
    if (page[next] == '&') {
      const size_t end = page.find(';', next);
      if (end == std::string::npos || end - next > 8) return "stray & at " + page.substr(next, 40);
      at = end + 1;
      continue;
    }
    size_t i = next + 1;
    const bool closing = page[i] == '/';
    if (closing) ++i;
    const size_t name_end = page.find_first_of(" />\n", i);
    const std::string name = page.substr(i, name_end - i);
    if (name.empty()) return "stray < at " + page.substr(next, 40);
    bool quoted = false;
    for (i = name_end; i < page.size() && (quoted || page[i] != '>'); ++i) {
      if (page[i] == '"') quoted = !quoted;
      if (page[i] == '<') return "< inside of a tag at " + page.substr(next, 60);
    }
    if (i >= page.size()) return "unclosed tag " + name;
    const bool alone = page[i - 1] == '/' || name == "!DOCTYPE" || name == "meta" || name == "img";
    if (closing) {
      if (open.empty() || open.back() != name)
        return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
      open.pop_back();
    } else if (!alone) {
      open.push_back(name);
    }
    at = i + 1;
    if (name == "style" && !closing) at = page.find("</style>", at);
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

// The numbers of points of all lines, in order; a path has one letter per point.
std::vector<size_t> path_points(const std::string& svg) {
  std::vector<size_t> counts;
  for (size_t at = 0; (at = svg.find(" d=\"", at)) != std::string::npos;) {
    at += 4;
    const std::string d = svg.substr(at, svg.find('"', at) - at);
    counts.push_back(count(d, "M") + count(d, "L"));
  }
  return counts;
}

std::string page_of(const History& history, const EvalDetails& details = {}) {
  Report report;
  report.title = "out/run";
  report.config_yaml = "a: 1\n";
  report.steps_per_epoch = 10;
  report.history = &history;
  if (!details.evaluator.empty()) report.details[details.evaluator] = details;
  return bv::render_report(report);
}

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
    history.add(
        step, {{"training_loss", 3.0 / static_cast<double>(step)},
               {"global_schedule", 0.5},
               {"uptime", step <= 20 ? static_cast<double>(step) : static_cast<double>(step - 20)},
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
  card("Wall time", "40s", "sum over all starts of the run");  // two processes of 20 s
  card("Parameters", "1,234,567", "");
  // Loss, loss per epoch, prec@1 (test and val together), test/loss, schedule, images per second.
  CHECK(count(page, "<svg class=\"chart\"") == 6);
  CHECK(path_points(page) == std::vector<size_t>{40, 3, 4, 3, 3, 3, 40, 40});
  for (const std::string outside : {"http", "<script", "url(", "@import", "src=\"/"}) {
    CAPTURE(outside);
    CHECK(page.find(outside) == std::string::npos);
  }
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
  CHECK(page.find("truth " + safe + ", guess b: 1 of 10") != std::string::npos);
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
  CHECK(small.find("truth name4, guess name5: 1 of 10\">1</td>") != std::string::npos);
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
  History percent;  // somebody's metric with this name is no share
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

TEST_CASE("base64: the vectors of RFC 4648") {
  CHECK(bv::base64("").empty());
  CHECK(bv::base64("f") == "Zg==");
  CHECK(bv::base64("fo") == "Zm8=");
  CHECK(bv::base64("foo") == "Zm9v");
  CHECK(bv::base64("foob") == "Zm9vYg==");
  CHECK(bv::base64("foobar") == "Zm9vYmFy");
  CHECK(bv::base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("png: the data decodes to the same pixels") {
  const auto decode64 = [](const std::string& text) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    uint32_t word = 0;
    int bits = 0;
    for (const char c : text) {
      if (c == '=') break;
      word = word << 6 | static_cast<uint32_t>(digits.find(c));
      bits += 6;
      if (bits >= 8) bytes += static_cast<char>(word >> (bits -= 8));
    }
    return bytes;
  };
  for (const int64_t channels : {1, 3, 4}) {
    std::vector<uint8_t> pixels;
    for (int i = 0; i < 5 * 7 * channels; ++i) pixels.push_back(static_cast<uint8_t>(i * 31));
    const std::string uri = bv::png_data_uri(pixels, 5, 7, channels);
    const std::string head = "data:image/png;base64,";
    REQUIRE(uri.substr(0, head.size()) == head);
    const std::string png = decode64(uri.substr(head.size()));
    spng_ctx* context = spng_ctx_new(0);
    REQUIRE(spng_set_png_buffer(context, png.data(), png.size()) == 0);
    spng_ihdr header{};
    REQUIRE(spng_get_ihdr(context, &header) == 0);
    CHECK((header.width == 7 && header.height == 5 && header.bit_depth == 8));
    std::vector<uint8_t> back(pixels.size());
    size_t size = 0;
    REQUIRE(spng_decoded_image_size(context, SPNG_FMT_PNG, &size) == 0);
    REQUIRE(size == back.size());
    REQUIRE(spng_decode_image(context, back.data(), back.size(), SPNG_FMT_PNG, 0) == 0);
    CHECK(back == pixels);
    spng_ctx_free(context);
  }
  CHECK(bv::png_data_uri({1, 2}, 1, 1, 2).empty());
  CHECK(bv::png_data_uri({1}, 1, 2, 1).empty());
  CHECK(bv::png_data_uri({}, 0, 0, 1).empty());
  CHECK(bv::png_data_uri({1}, -1, -1, 1).empty());
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
