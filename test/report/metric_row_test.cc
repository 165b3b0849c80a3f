// The parser for the rows of metrics.jsonl.
#include "lib/report/metric_row.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/report/metric_file.h"

namespace bv {
namespace {

TEST_CASE("a row that is written is read with its exact names and values") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Row written = {{"training_loss", 0.1},
                       {"a \"b\"\\c\n\x01é", -1.5e-300},
                       {"largest", 1.7976931348623157e308},
                       {"tiny", 5e-324},
                       {"zero", -0.0},
                       {"up", kInf},
                       {"down", -kInf}};
  MetricRowReader reader;
  for (const int64_t step : {int64_t{0}, int64_t{12}, std::numeric_limits<int64_t>::max()}) {
    REQUIRE(reader.read(row_text(step, written)) == step);
    CHECK(reader.row() == written);
    CHECK(std::signbit(reader.row()[4].second));
  }
  REQUIRE(reader.read(row_text(1, {{"lr", NAN}})) == 1);
  CHECK(std::isnan(reader.row().at(0).second));
  CHECK(reader.row().at(0).first == "lr");
}

TEST_CASE("metrics keep their numbers in rows with others, and in another order") {
  MetricRowReader reader;
  reader.read(R"({"step": 1, "a": 1, "b": 2, "c": 3})");
  reader.read(R"( { "c" : 30 , "step" : 2 , "d" : 40 , "a" : 10 } )");
  CHECK(reader.names() == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(reader.values() == std::vector<std::pair<size_t, double>>{{2, 30}, {3, 40}, {0, 10}});
  CHECK(reader.row() == Row{{"c", 30}, {"d", 40}, {"a", 10}});
  reader.read(R"({"step": 3})");
  CHECK(reader.row().empty());
}

TEST_CASE("a line that is not a row is refused, and the next one is read") {
  for (const std::string& line : std::vector<std::string>{"",
                                                          "{",
                                                          "{}",
                                                          "[]",
                                                          R"({"a": 1})",
                                                          R"({"step": 1.0})",
                                                          R"({"step": 1e2})",
                                                          R"({"step": -1})",
                                                          R"({"step": 9223372036854775808})",
                                                          R"({"step": "1"})",
                                                          R"({"step": 1, "step": 1})",
                                                          R"({"step": 1, "a": })",
                                                          R"({"step": 1, "a": [1]})",
                                                          R"({"step": 1, "a": {"b": 1}})",
                                                          R"({"step": 1, "a": null})",
                                                          R"({"step": 1, "a": "high"})",
                                                          R"({"step": 1, "a": inf})",
                                                          R"({"step": 1, "a": -inf})",
                                                          R"({"step": 1, "a": -})",
                                                          R"({"step": 1, "a": 1e999})",
                                                          R"({"step": 1, "a": .5})",
                                                          R"({"step": 1, "a": +1})",
                                                          R"({"step": 1, "a" 1})",
                                                          R"({"step": 1,})",
                                                          R"({"step": 1, "a": 1}})",
                                                          R"({"step": 1} {"step": 2})",
                                                          R"({"step": 1, "a)",
                                                          R"({"step": 1, "a\)",
                                                          R"({"step": 1, "\q": 1})",
                                                          "{\"step\": 1, \"\xff\": 1}",
                                                          "{\"step\": 1, \"a\x01\": 1}"}) {
    CAPTURE(line);
    MetricRowReader reader;
    CHECK_FALSE(reader.read(line));
    CHECK(reader.read(R"({"step": 7, "a": 1})") == 7);
    CHECK(reader.row() == Row{{"a", 1}});
  }
}

}  // namespace
}  // namespace bv
