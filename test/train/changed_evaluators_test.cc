// How the config of a run differs from that of the checkpoint that it continues.
#include "lib/train/run_changes.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "test/support/digits_run.h"
#include "test/support/text.h"

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
  return changes_since(checkpoint, Recipe(config, /*synthetic=*/false, /*meta=*/true), {});
}

// Returns the evaluators whose earlier values do not count.
Names measured_anew(const std::string& before, const std::string& now) {
  return changes_between(with_evaluators(before), with_evaluators(now)).changed_evaluators();
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
  // A name with a dot begins like another one.
  CHECK(measured_anew(digits_evaluator("test.v2", {}),
                      test + digits_evaluator("test.v2", {}, "train")) == Names{"test", "test.v2"});
}

TEST_CASE("start: evaluators of the loss measure anew if the loss has changed") {
  const auto typed = [](const std::string& name, const std::string& type, const std::string& keys) {
    return replace_all(digits_evaluator(name, {keys}), "    type: classification\n",
                       "    type: " + type + "\n");
  };
  const auto without_loss_name = [](const std::string& text) {
    return replace_all(text, "    loss_name: softmax_xent\n", "");
  };
  const std::string before =
      with_evaluators(digits_evaluator("test", {}) +
                      without_loss_name(typed("average", "mean", "pred: loss") +
                                        typed("bins", "calibration", "bins: 5") +
                                        typed("fixed", "calibration", "probabilities: softmax")));
  const auto anew = [&](const std::string& loss) {
    return changes_between(before, replace_all(before, "\nloss: softmax_xent\n", loss))
        .changed_evaluators();
  };
  CHECK(anew("\nloss: softmax_xent\nlabel_smoothing: 0.1\n").empty());
  CHECK(anew("\nloss: sigmoid_xent\n") == Names{"average", "bins"});
  // What does not affect `pred: loss`.
  CHECK(anew("\nloss: softmax_xent\ntask_kw: {class_weights: balanced}\n").empty());

  const std::string several = replace_all(
      with_evaluators(without_loss_name(typed("counts", "class_metrics", "") +
                                        typed("fixed", "class_metrics", "multilabel: false"))),
      "\nloss: softmax_xent\n", "\nloss: sigmoid_xent\n");
  CHECK(changes_between(several, several + "task_kw: {multilabel: true}\n").changed_evaluators() ==
        Names{"counts"});

  const auto huber = [&](const std::string& task_kw) {
    return replace_all(with_evaluators(without_loss_name(typed("average", "mean", "pred: loss"))),
                       "\nloss: softmax_xent\n", "\nloss: huber\ntask: regress\n" + task_kw);
  };
  const std::string two = huber("task_kw: {delta: 2}\n");
  CHECK(changes_between(huber(""), two).changed_evaluators() == Names{"average"});
  CHECK(changes_between(two, huber("task_kw: {delta: 2.0}\n")).changed_evaluators().empty());
  CHECK(changes_between(huber(""), huber("task_kw: {delta: 1}\n")).changed_evaluators().empty());
}

TEST_CASE("start: the weights that a run starts from matter if it trains no step") {
  const std::string now = digits_config("lr: 0.05\n");
  const std::string before = now + "model_init: a.npz\nmodel_load: {dont_load: [head/.*]}\n";
  CHECK(changes_between(before, now).changing.empty());
  const auto untrained = [](const std::string& config) {
    return replace_all(config, "\ntotal_steps: 20\n", "\ntotal_steps: 0\n");
  };
  Names keys;
  for (const ConfigChange& change : changes_between(untrained(before), untrained(now)).changing)
    keys.push_back(change.key());
  CHECK(keys == Names{"model_init", "model_load.dont_load"});
}

// Hashing the data of a large run takes seconds, so each start does it once.
TEST_CASE("start: the data are compared by the given summary, and not read again") {
  const Config config = parse_config(digits_config("lr: 0.05\n"), "c.yaml");
  const Recipe recipe(config, /*synthetic=*/false, /*meta=*/true);
  const nlohmann::json made_up = {{"input", "1a"},
                                  {"examples", 7},
                                  {"evals", nlohmann::json::object()},
                                  {"labels", nlohmann::json::object()},
                                  {"content", {{"input", "3c"}}}};
  Restored checkpoint;
  checkpoint.folder = "ckpt/step-5";
  checkpoint.meta = {{"config", config.json()}, {"data", made_up}};
  CHECK(changes_since(checkpoint, recipe, made_up).none());
  nlohmann::json fewer = made_up;
  fewer.merge_patch({{"input", "9f"}, {"examples", 6}});
  CHECK(changes_since(checkpoint, recipe, fewer).lines() ==
        Names{"input.data: 7 examples -> 6 examples"});
}

}  // namespace bv::test
