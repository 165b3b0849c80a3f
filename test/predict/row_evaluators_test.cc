// Which evaluators may add rows to a folder.
#include "lib/predict/row_evaluators.h"

#include <catch2/catch.hpp>

#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

TEST_CASE("a folder of rows remembers an evaluator that later rows lack") {
  const TempFolder dir;
  const Workdir rows(dir.path());
  const auto add = [&](const std::string& evals) {
    const std::string all = add_to_row_evaluators(rows, evals);
    write(rows.config(), all);
    return all;
  };
  const std::string both = "{\"a\":{\"data\":1},\"b\":{\"data\":2}}\n";
  CHECK(add(both) == both);
  CHECK(add(R"({"a":{"data":1}})") == both);
  const std::string others =
      dir.path() +
      ": error: has rows of other evaluators; choose another folder with --output, or move this "
      "one away";
  // Under the name of b, other data.
  CHECK(error_of([&] { add(R"({"a":{"data":1},"b":{"data":3}})"); }) == others);
  CHECK(error_of([&] { add(R"({"c":{"data":1}})"); }) == others);
  // A harmless key may change, and evaluators may be added.
  const std::string more =
      "{\"a\":{\"data\":1,\"log_steps\":2},\"b\":{\"data\":2},\"c\":{\"data\":3}}\n";
  CHECK(add(more) == more);
  // Files of earlier versions do not hold the loss.
  write(rows.config(), R"({"a":{"data":1}})");
  add(R"({"a":{"data":1,"loss_of_run":{"loss":"mse"}}})");
  add(R"({"a":{"data":1}})");
  add(R"({"a":{"data":1,"loss_of_run":{"loss":"l1"}}})");
  CHECK(error_of([&] { add(R"({"a":{"data":1,"loss_of_run":{"loss":"mse"}}})"); }) == others);
  const std::string dotted = "{\"a.v2\":{\"data\":1,\"log_steps\":2}}\n";
  write(rows.config(), "{\"a.v2\":{\"data\":1}}\n");
  CHECK(add(dotted) == dotted);
}

}  // namespace bv::test
