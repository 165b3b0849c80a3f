// How the config of a run differs from that of the checkpoint that it continues.
#include "lib/train/start.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "test/support/digits_run.h"

namespace bv::test {
namespace {

using Names = std::vector<std::string>;

std::string with_evaluators(const std::string& evaluators) {
  return digits_config("lr: 0.05\n" + (evaluators.empty() ? "" : "evals:\n" + evaluators));
}

ConfigChanges changes_between(const std::string& before, const std::string& now) {
  Restored checkpoint;
  checkpoint.folder = "ckpt/step-5";
  checkpoint.meta = {{"config", parse_config(before, "before.yaml").json()}};
  const Config config = parse_config(now, "now.yaml");
  return changes_since(checkpoint, Recipe(config, /*synthetic=*/false, /*meta=*/true));
}

// Returns the evaluators whose earlier values do not count.
Names measured_anew(const std::string& before, const std::string& now) {
  const Config config = parse_config(with_evaluators(now), "now.yaml");
  const Recipe recipe(config, /*synthetic=*/false, /*meta=*/true);
  const ConfigChanges changes = changes_between(with_evaluators(before), with_evaluators(now));
  return changes.changed_evaluators(recipe);
}

}  // namespace

TEST_CASE("start: an evaluator that is added measures anew, and changes no training") {
  const std::string test = digits_evaluator("test", {"log_steps: 2"});
  const std::string as_test = digits_evaluator("other", {"log_steps: 2", "prefix: test/"}, "train");
  CHECK(measured_anew(test, test).empty());
  CHECK(measured_anew("", test) == Names{"test"});  // an earlier restart may have removed it
  CHECK(measured_anew(test, "").empty());
  CHECK(measured_anew(test, "  test: null\n").empty());
  CHECK(measured_anew("  test: null\n", test) == Names{"test"});
  CHECK(measured_anew(test, "  test: null\n" + as_test) == Names{"other"});
  CHECK(measured_anew(test, test + digits_evaluator("late", {"log_steps: 2"})) == Names{"late"});
  CHECK(measured_anew(test, digits_evaluator("test", {"log_steps: 3"})).empty());
  CHECK(measured_anew(test, digits_evaluator("test", {"log_steps: 2"}, "train")) == Names{"test"});
  CHECK(changes_between(with_evaluators(test), with_evaluators(as_test)).changing.empty());
}

}  // namespace bv::test
