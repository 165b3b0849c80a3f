// The keys that all evaluators have.
#include "lib/train/eval_job.h"

#include <catch2/catch.hpp>

#include "test/support/config.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

// Reads the evaluators of a task that has one more prediction function than others.
std::vector<EvalJob> evaluators(const Config& config) {
  EvalDefaults defaults;
  defaults.env.batch_size = 8;
  defaults.predictions = {{"predict", kLogitsOutput}, {"loss", kLossOutput}, {"embed", "vectors"}};
  return read_evals(config, defaults, {.batch_size = 8, .data_size = 80, .total_steps = 10});
}

std::string evaluator_problems(const std::string& evals) {
  return error_of([&] { from_yaml(evals, evaluators); });
}

// Returns an evaluator that can be built.
std::string mean_of(const std::string& name) {
  return name + ": {type: mean, pred: loss, data: {name: digits, split: test}, " +
         "pp_fn: 'value_range(-1, 1)'}\n";
}

}  // namespace

TEST_CASE("an evaluator's prediction function gives the output that the evaluator reads") {
  const std::string knn =
      "knn:\n  train: {name: digits, split: train}\n  data: {name: digits, split: test}\n"
      "  pp_fn: value_range(-1, 1)|keep(\"image\", \"label\")\n  pred: ";
  CHECK(evaluator_problems(knn + "predict\n").empty());
  CHECK(evaluator_problems(knn + "embed\n") ==
        "t.yaml:5:9: error: knn.pred: the evaluator 'knn' reads 'logits', which 'embed' does not "
        "give; write pred: predict");
}

TEST_CASE("the metric of skipped examples needs a name of its own, before the evaluators run") {
  const auto evaluator = [](const std::string& name, const std::string& keys) {
    return name + ": {data: {name: digits, split: test}, pp_fn: 'value_range(-1, 1)', " + keys +
           "}\n";
  };
  const std::string loss = "type: mean, pred: loss", bins = "type: calibration";
  const std::string bare = ", prefix: ''", skips = ", skip_errors: 3";
  const std::string a = evaluator("a", loss + bare + skips);
  CHECK(evaluator_problems(a + evaluator("b", bins + skips)).empty());
  CHECK(evaluator_problems(a + evaluator("b", bins + bare + ", skip_errors: false")).empty());
  const std::string remedy = ": give it another `prefix`";
  CHECK_THAT(
      evaluator_problems(a + evaluator("b", bins + bare + ", skip_errors: true")),
      Catch::EndsWith("measures 'errors', which is also a metric of evaluator 'a'" + remedy));
  CHECK_THAT(
      evaluator_problems(evaluator("input", bins + skips)),
      Catch::EndsWith("measures 'input/errors', which is also a metric of the training" + remedy));
}

TEST_CASE("a null that turns off no evaluator gives a warning") {
  const Config config = parse_config(mean_of("val") + "vall: null\n", "t.yaml");
  evaluators(config);
  throw_problems(config);
  CHECK(warnings(config) ==
        std::vector<std::string>{"t.yaml:2:1: warning: vall: null turns off the evaluator of this "
                                 "name, but there is none (did you mean 'val'?)"});
  const Config removed = parse_config(mean_of("val") + mean_of("test"), "t.yaml",
                                      {{"test", "null", "--set test=null"}});
  CHECK(evaluators(removed).size() == 1);
  CHECK(warnings(removed).empty());
}

TEST_CASE("--set of an evaluator that does not exist names a similar one") {
  const auto line = [](const std::string& key) {
    const Config config = parse_config(mean_of("val"), "t.yaml", {{key, "5", "--set " + key}});
    evaluators(config);
    return error_of([&] { throw_problems(config); });
  };
  CHECK(line("vall.log_steps") ==
        "--set vall.log_steps: error: vall: has no 'type', such as classification (did you mean "
        "'val'?)");
  CHECK(line("train.log_steps") ==
        "--set train.log_steps: error: train: has no 'type', such as classification");
  CHECK(evaluator_problems(mean_of("val") + "vall: {log_steps: 5}\n") ==
        "t.yaml:2:7: error: vall: has no 'type', such as classification");
}

TEST_CASE("two evaluators do not have the same path") {
  CHECK(evaluator_problems(mean_of("val") + mean_of("val.v2")).empty());
  CHECK(evaluator_problems(mean_of("val.data")).empty());
  CHECK(evaluator_problems(mean_of("val") + mean_of("val.data")) ==
        "t.yaml:2:11: error: val.data: cannot name an evaluator, because the evaluator 'val' has "
        "the key 'data'; choose another name");
}

TEST_CASE("two evaluators do not write the same file") {
  const auto save = [](const std::string& name, const std::string& keys) {
    return name + ": {type: save, data: {name: digits, split: test}, " +
           "pp_fn: 'value_range(-1, 1)'" + keys + "}\n";
  };
  CHECK(evaluator_problems(save("a", "") + save("b", "")).empty());
  const std::string same = ", outfile: '{workdir}/o-{step}.npz'";
  CHECK_THAT(evaluator_problems(save("a", same) + save("b", same)),
             Catch::StartsWith("t.yaml:2:") &&
                 Catch::EndsWith("error: b.outfile: evaluator 'a' writes the same file; give each "
                                 "evaluator its own"));
}

TEST_CASE("a metric belongs to one evaluator, or to the training") {
  MetricOwners owners;
  const auto claim = [&](const std::string& metric, const std::string& evaluator) {
    return claim_metric(metric, evaluator, owners);
  };
  CHECK(claim("val/errors", "val").empty());
  CHECK(claim("val/errors", "val").empty());
  CHECK(claim("val/errors", "other") ==
        "measures 'val/errors', which is also a metric of evaluator 'val': give it another "
        "`prefix`");
  for (const char* metric : {"input/errors", "training_loss"}) {
    CHECK(claim(metric, "input") ==
          fmt::format("measures '{}', which is also a metric of the training: give it another "
                      "`prefix`",
                      metric));
  }
}

}  // namespace bv::test
