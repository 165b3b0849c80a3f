// The report's figures per class, curves and residuals.
#include <catch2/catch.hpp>
#include <cmath>

#include "lib/report/page/report_evals.h"

namespace bv::test {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("report: figures per class; what is not defined is a dash") {
  EvalDetails details;
  details.class_names = {"cat", "<b>"};
  details.classes = {{30, 0.5, 0.25, 0.3333, 0.75, 0.9}, {0, 0, 0, 0, std::nan(""), std::nan("")}};
  const std::string page = render_details(details);
  CHECK(page.find("<tr><td>cat</td><td>30</td><td>0.500</td><td>0.250</td><td>0.333</td>"
                  "<td>0.750</td><td>0.900</td></tr>") != std::string::npos);
  CHECK(page.find("<tr><td>&lt;b&gt;</td><td>0</td><td>0.000</td><td>0.000</td><td>0.000</td>"
                  "<td>&#8211;</td><td>&#8211;</td></tr>") != std::string::npos);
  details.classes.assign(300, {1, 1, 1, 1, 1, 1});
  details.classes[250].f1 = 0.125;
  const std::string many = render_details(details);
  CHECK(many.find("The 100 classes with the lowest F1, of 300 that have examples.") !=
        std::string::npos);
  CHECK(count_of(many, "<td>0.125</td>") == 1);
}

TEST_CASE("report: of many classes, those without examples are left out of the table") {
  EvalDetails details;
  details.classes.assign(300, {0, 0, 0, 0, std::nan(""), std::nan("")});
  for (size_t label = 290; label < 300; ++label) details.classes[label] = {7, 1, 1, 1, 1, 1};
  const std::string few = render_details(details);
  CHECK(few.find("The 10 of 300 classes that have examples.") != std::string::npos);
  CHECK(count_of(few, "<td>7</td>") == 10);
  CHECK(count_of(few, "<td>0</td><td>0.000</td>") == 0);
  for (size_t label = 140; label < 290; ++label) details.classes[label] = {7, 1, 1, 0.5, 1, 1};
  details.classes[299].f1 = 0.125;
  const std::string many = render_details(details);
  CHECK(many.find("The 100 classes with the lowest F1, of 160 that have examples.") !=
        std::string::npos);
  CHECK(count_of(many, "<td>7</td>") == 100);
  CHECK(count_of(many, "<td>0.125</td>") == 1);
  CHECK(count_of(many, "<td>0.500</td>") == 99);
}

TEST_CASE("report: a chart of ROC curves and one of precision over recall") {
  EvalDetails details;
  details.curves = {{"mean", {{0, 0}, {1, 1}}, {{0, 1}, {1, 0.5}}},
                    {"cat", {{0, 0.5}, {1, 1}}, {{0.5, 1}, {1, 0.25}}}};
  const std::string page = render_details(details);
  CHECK(count_of(page, "<svg") == 2);
  CHECK(page.find(">ROC</text>") != std::string::npos);
  CHECK(page.find(">Precision over recall</text>") != std::string::npos);
  CHECK(count_of(page, ">cat</text>") == 2);
  details.curves[0].roc.clear();
  details.curves[1].roc.clear();
  CHECK(count_of(render_details(details), "<svg") == 1);
}

TEST_CASE("report: errors over the right values, at most 400 dots for a target") {
  EvalDetails details;
  auto& residuals = details.residuals.emplace_back();
  residuals.target = "target 3";
  for (int i = 0; i < 1000; ++i) residuals.points.emplace_back(i, i % 7 - 3);
  const std::string page = render_details(details);
  CHECK(page.find(">Error of target 3</text>") != std::string::npos);
  const size_t dots = count_of(page, "r=\"2.6\"");
  CHECK(dots > 300);
  CHECK(dots <= 400 + 2);
  details.residuals.assign(40, residuals);
  const std::string many = render_details(details);
  CHECK(count_of(many, "<svg") == 12);
  CHECK(many.size() < 700'000);
}

TEST_CASE("report: right values between two whole numbers have ticks") {
  EvalDetails details;
  details.residuals.push_back({"", {{0.2, 1}, {0.5, 2}, {0.8, 3}}});
  const std::string page = render_details(details);
  for (const char* tick : {">0.4</text>", ">0.6</text>"}) CHECK(count_of(page, tick) == 1);
}

TEST_CASE("report: details without classes, curves and residuals show none") {
  const std::string page = render_details(EvalDetails());
  CHECK(page.find("<svg") == std::string::npos);
  CHECK(page.find("per class") == std::string::npos);
}

}  // namespace bv::test
