// Which evaluators may add rows to a folder.
#include "lib/predict/row_evaluators.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
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

TEST_CASE("evaluators are compared with the defaults of their keys, and data by its content") {
  const TempFolder dir;
  const Workdir rows(dir.path());
  const auto fits = [&](const std::string& stored, const std::string& next) {
    write(rows.config(), stored);
    const Config config = parse_config_json(R"({"loss": "mse", "evals": )" + next + "}", "c.yaml");
    const Config a = config.section("evals").section("a");
    a.get("label_key", "labels");
    a.get("probabilities", "softmax");
    a.get<int64_t>("batch_size", 64);
    a.section("data").get("fname", "");
    return error_of([&] { add_to_row_evaluators(rows, next, &config); }).empty();
  };
  const std::string short_text = R"({"a": {"data": {"fname": "x.npz"}}})";
  const std::string long_text =
      R"({"a": {"data": {"fname": "x.npz"}, "label_key": "labels", "batch_size": 64}})";
  CHECK(fits(short_text, long_text));
  CHECK(fits(long_text, short_text));
  CHECK_FALSE(fits(short_text, R"({"a": {"data": {"fname": "x.npz"}, "label_key": "other"}})"));
  CHECK_FALSE(fits_row_evaluators(rows, long_text));  // the defaults are not known
  CHECK(fits_row_evaluators(rows, short_text));

  const auto at = [](const std::string& path, const std::string& content) {
    return R"({"a": {"data": {"fname": ")" + path + R"("})" + content + "}}";
  };
  const std::string first = R"(, "content_of_data": "9-1-1")",
                    second = R"(, "content_of_data": "9-1-2")";
  CHECK(fits(at("x.npz", first), at("y.npz", first)));
  CHECK_FALSE(fits(at("x.npz", first), at("y.npz", second)));
  CHECK_FALSE(fits(at("x.npz", ""), at("y.npz", first)));  // rows of an earlier version
  CHECK(fits(at("x.npz", ""), at("x.npz", first)));

  // A default that follows from the loss.
  const std::string spelled = at("x.npz", R"(, "probabilities": "softmax")");
  CHECK(fits(at("x.npz", R"(, "loss_of_run": {"loss": "mse"})"), spelled));
  CHECK_FALSE(fits(at("x.npz", R"(, "loss_of_run": {"loss": "l1"})"), spelled));
}

TEST_CASE("the evaluators of which a folder has no rows") {
  const TempFolder dir;
  const Workdir rows(dir.path());
  write(rows.config(), R"({"a":{"data":1}})");
  using Names = std::vector<std::string>;
  CHECK(evaluators_without_rows(Workdir(dir / "none"), R"({"a":{"data":1}})").empty());
  CHECK(evaluators_without_rows(rows, R"({"a":{"data":1}})").empty());
  CHECK(evaluators_without_rows(rows, R"({"a":{"data":1},"b":{},"c.v2":{}})") ==
        Names{"b", "c.v2"});
}

}  // namespace bv::test
