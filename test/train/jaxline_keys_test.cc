// The keys and flags of JAXline (jaxline/base_config.py, jaxline/train.py): each key is one here
// too, or its error says in one line what to write instead. docs/from-jaxline.md explains each.
#include <catch2/catch.hpp>

#include "lib/config/familiar_words.h"
#include "lib/config/load_config.h"
#include "lib/train/recipe.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/support/error.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

enum class Here {
  same,    // a key of the same name
  other,   // the advice names what to write
  always,  // what the key enables always happens
  lacking  // the advice states that it does not exist
};

struct BaseKey {
  std::string name, value;  // the value as in the base config
  Here here;
  std::string advice;  // a part of the error
};

// All keys of JAXline's base config, in its order.
const std::vector<BaseKey> kBaseKeys = {
    {"experiment_kwargs", "{}", Here::other, "at the top level here: 'model', 'input', 'optax'"},
    {"training_steps", "10000", Here::other, "is 'total_steps' here"},
    {"interval_type", "secs", Here::other, "'ckpt_steps' or 'ckpt_seconds'"},
    {"save_checkpoint_interval", "300", Here::other, "'ckpt_seconds' or 'ckpt_steps'"},
    {"log_tensors_interval", "60", Here::other, "'log_training_seconds'"},
    {"periodic_action_growth_ratios", "null", Here::same, ""},
    {"log_train_data_interval", "120.0", Here::other, "'log_training_seconds'"},
    {"log_async", "true", Here::always, "always writes the metrics"},
    {"log_all_hosts", "false", Here::lacking, "only process 0 writes the metrics"},
    {"logging_interval_type", "null", Here::other, "'log_training_steps'"},
    {"checkpoint_interval_type", "null", Here::other, "'ckpt_steps'"},
    {"save_initial_train_checkpoint", "false", Here::lacking, "step 0 is not saved"},
    {"train_checkpoint_all_hosts", "false", Here::always, "its shard of sharded state"},
    {"best_checkpoint_all_hosts", "false", Here::always, "its shard of sharded state"},
    {"log_all_train_data", "false", Here::other, "'log_training_steps: 1'"},
    {"eval_initial_weights", "false", Here::always, "'skip_first: true'"},
    {"one_off_evaluate", "false", Here::other, "'bvtrain eval --workdir DIR'"},
    {"max_checkpoints_to_keep", "5", Here::same, ""},
    {"random_seed", "42", Here::other, "'seed'"},
    {"random_mode_train", "unique_host_unique_device", Here::lacking, "there is no choice"},
    {"random_mode_eval", "same_host_same_device", Here::lacking, "there is no choice"},
    {"legacy_random_seed_behavior", "false", Here::lacking, "depend only on 'seed'"},
    {"best_model_eval_metric", "\"\"", Here::other, "'best: {metric: val/prec@1}'"},
    {"best_model_eval_metric_higher_is_better", "true", Here::other, "higher_is_better: false}'"},
};

const std::string kFlags[] = {"jaxline_mode", "jaxline_post_mortem", "jaxline_disable_pmap_jit",
                              "jaxline_tpu_driver", "jaxline_ensure_tpu"};

// The lines of a config in which nothing is wrong, without `total_steps`.
const std::string kBase =
    "num_classes: 10\n"
    "log_training_steps: 2\n"
    "input:\n"
    "  data: {name: digits, split: train}\n"
    "  batch_size: 8\n"
    "  pp: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|keep(\"image\", "
    "\"labels\")\n"
    "model_name: cnn\n"
    "loss: softmax_xent\n"
    "optax_name: scale_by_adam\n"
    "lr: 0.001\n";

// Returns the lines that `--explain` shows for a config.
std::string explained_problems(const std::string& text) {
  return error_of([&] {
    const Config config = parse_config(text, "x.yaml");
    const Recipe recipe(config, /*synthetic=*/false, /*meta=*/true);
  });
}

std::string page() { return read_file(BV_TEST_DIR "/../docs/from-jaxline.md"); }

}  // namespace

TEST_CASE("each key of JAXline's base config is a key here, or its error says what to write") {
  CHECK(kBaseKeys.size() == 24);
  CHECK(explained_problems("total_steps: 4\n" + kBase).empty());
  for (const BaseKey& key : kBaseKeys) {
    INFO(key.name);
    // A key for the length of the run replaces ours.
    const std::string length = key.name == "training_steps" ? "" : "total_steps: 4\n";
    const std::string problems =
        explained_problems(key.name + ": " + key.value + "\n" + length + kBase);
    INFO(problems);
    if (key.here == Here::same) {
      CHECK(problems.empty());
      continue;
    }
    CHECK(problems.find('\n') == std::string::npos);
    CHECK(problems.starts_with("x.yaml:1:1: error: unknown key '" + key.name + "': "));
    CHECK(contains(problems, key.advice));
    CHECK(!contains(problems, "known here:"));
    CHECK(!contains(problems, "did you mean"));
    const bool nothing_to_write = key.here == Here::always || key.here == Here::lacking;
    CHECK(contains(problems, "leave it out") == nothing_to_write);
  }
}

TEST_CASE("a whole base config of JAXline gives one line for each key that is not ours") {
  std::string text = kBase;
  size_t unknown = 0;
  for (const BaseKey& key : kBaseKeys) {
    text += key.name + ": " + key.value + "\n";
    unknown += key.here == Here::same ? 0 : 1;
  }
  // A run prints at most 20 problems, and then how many more there are.
  CHECK(unknown == 22);
  const std::vector<std::string> lines = split(explained_problems(text), '\n');
  REQUIRE(lines.size() == 21);
  for (size_t i = 0; i < 20; ++i) CHECK(contains(lines[i], "unknown key"));
}

TEST_CASE("flags of JAXline are answered too") {
  for (const std::string& flag : kFlags) {
    INFO(flag);
    const FamiliarWord word = familiar_flag("--" + flag);
    CHECK(word.ours.empty());
    CHECK(!word.advice.empty());
  }
}

TEST_CASE("docs/from-jaxline.md names each key and flag of JAXline") {
  const std::string text = page();
  for (const BaseKey& key : kBaseKeys) {
    INFO(key.name);
    CHECK(contains(text, "| `" + key.name + "`"));  // the first cell of a row
  }
  for (const std::string& flag : kFlags) {
    INFO(flag);
    CHECK(contains(text, "| `--" + flag));
  }
}

TEST_CASE("nothing is wrong with the config of docs/from-jaxline.md") {
  const std::string text = page(), begin = "```yaml\n";
  const size_t start = text.find(begin);
  REQUIRE(start != std::string::npos);
  const size_t end = text.find("```", start + begin.size());
  REQUIRE(end != std::string::npos);
  CHECK(explained_problems(text.substr(start + begin.size(), end - start - begin.size())).empty());
}

}  // namespace bv::test
