#include "lib/report/params_table.h"

#include <catch2/catch.hpp>

TEST_CASE("the parameter table is aligned, marks what is frozen and adds up") {
  const std::vector<bv::ParamRow> rows{
      {"head/kernel", {256, 10}, 0.0012345, 0.0625, false},
      {"conv/bias", {32}, 0, 0, true},
      {"scale", {}, 1, 0, false},
  };
  CHECK(bv::params_table(rows) ==
        "+--------------------+-----------+-------+---------+--------+\n"
        "| Name               | Shape     | Size  | Mean    | Std    |\n"
        "+--------------------+-----------+-------+---------+--------+\n"
        "| head/kernel        | (256, 10) | 2,560 | 0.00123 | 0.0625 |\n"
        "| conv/bias (frozen) | (32)      |    32 |       0 |      0 |\n"
        "| scale              | ()        |     1 |       1 |      0 |\n"
        "+--------------------+-----------+-------+---------+--------+\n"
        "Total: 2,593 in 3 parameters, 32 of them frozen");
}

TEST_CASE("the parameter table of nothing") {
  CHECK(bv::params_table({}) ==
        "+------+-------+------+------+-----+\n"
        "| Name | Shape | Size | Mean | Std |\n"
        "+------+-------+------+------+-----+\n"
        "Total: 0 in 0 parameters");
}
