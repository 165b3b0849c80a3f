// The report's confidence bins.
#include <catch2/catch.hpp>

#include "lib/report/page/report_evals.h"

TEST_CASE("report: examples by confidence, with what is right of them") {
  bv::EvalDetails details;
  details.evaluator = "cal";
  details.calibration = {{0, 0, 0}, {30, 0.4, 0.5}, {90, 0.9, 0.75}};
  const std::string page = bv::render_details(details);
  CHECK(page.find("<h3>Confidence</h3>") != std::string::npos);
  CHECK(page.find("<span class=\"name\">0 &#8211; 0.333</span>") != std::string::npos);
  CHECK(page.find("style=\"width:25.0%\"></span></span><span class=\"value\">50.0 % right, 40.0 % "
                  "sure <small>30 examples</small>") != std::string::npos);
  CHECK(page.find("style=\"width:75.0%\"") != std::string::npos);
  CHECK(page.find("<small>none</small>") != std::string::npos);
  CHECK(page.find("Confusion") == std::string::npos);
}

TEST_CASE("report: no bins, or bins of no example, are not shown") {
  bv::EvalDetails details;
  CHECK(bv::render_details(details).find("Confidence") == std::string::npos);
  details.calibration.resize(15);
  CHECK(bv::render_details(details).find("Confidence") == std::string::npos);
}
