// Recipe's code that compares the evaluators with the training.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "lib/input/split_overlap.h"
#include "lib/report/metric_direction.h"
#include "lib/train/recipe.h"

namespace bv {
namespace {

bool has_type(const EvalJob& job, const Config& keys, std::string_view type) {
  return keys.has("type") ? keys.is_text("type", type) : job.name == type;
}

// Whether an evaluator has a section `data` with examples that the model should not know. `knn` and
// `fewshot_lsr` have training data of their own, and `save` measures nothing. A distance may come
// from a file.
bool uses_test_data(const EvalJob& job, const Config& keys) {
  for (const char* type : {"knn", "fewshot_lsr", "save"}) {
    if (has_type(job, keys, type)) return false;
  }
  const bool distance =
      has_type(job, keys, "distance") || has_type(job, keys, "proj.distill.distance");
  return keys.is_map("data") && !(distance && job.evaluator->fingerprint() == 0);
}

// Replaces a path that exists by its only spelling: absolute and without links. `value` may be a
// mapping of paths. Everything else stays.
void spell_path(nlohmann::json& value) {
  if (value.is_object()) {
    for (nlohmann::json& each : value) spell_path(each);
  } else if (value.is_string()) {
    std::error_code error;
    const std::filesystem::path path =
        std::filesystem::canonical(value.get_ref<const std::string&>(), error);
    if (!error) value = path.string();
  }
}

// Whether two sections describe the same data set, except for the part of it to use.
bool same_data_set(const Config& a, const Config& b) {
  const auto keys_of_data = [](const Config& data) {
    nlohmann::json keys = nlohmann::json::parse(data.resolved_json());
    for (const char* part : {"split", "unknown_classes"}) keys.erase(part);
    for (const char* key : {"data_dir", "fname", "folder", "fopen_keys", "images", "labels"}) {
      if (const auto path = keys.find(key); path != keys.end()) spell_path(*path);
    }
    return keys;
  };
  return keys_of_data(a) == keys_of_data(b);
}

}  // namespace

// Warns if an evaluator measures examples that the run trains on. Examples that a quarantine or
// `unknown_classes` excludes are counted too.
void Recipe::warn_of_training_examples(const EvalJob& job, const Config& keys) const {
  if (!data || data_env_.synthetic || length.no_training) return;
  if (names_training(job.name) || names_training(job.prefix) || !uses_test_data(job, keys)) return;
  const Config own = keys.section("data");
  const Source* source = nullptr;
  std::vector<std::string> trained;  // split expressions
  for (const InputPart& part : inputs_) {
    const Config training = part.keys.section("data");
    if (!same_data_set(training, own)) continue;
    source = &part.training.data->source();
    trained.push_back(training.get("split", "train"));
  }
  if (source == nullptr) return;
  const SplitOverlap overlap =
      split_overlap(*source, own.get("split", "train"), trained, own.place("split"));
  if (overlap.shared == 0) return;
  const std::string of = overlap.all > 0 ? fmt::format(" of the {}", overlap.all) : "";
  own.warn("split", fmt::format("{}{} examples of evals.{} are also training examples, so its "
                                "metrics do not show how good the model is on new examples; a name "
                                "such as 'train' or 'minitrain' turns this warning off",
                                overlap.shared, of, job.name));
}

// Warns if `loss` was probably forgotten: an evaluator measures another loss than the default.
void Recipe::warn_of_default_loss() const {
  if (config.has("loss") || length.no_training) return;
  // With task: regress, a loss of classes is no sign that `loss` was forgotten.
  if (config.is_text("task", "regress")) return;
  const std::string trained = default_loss(config.get("task", "classify"));
  const Config section = config.section("evals");
  for (const EvalJob& job : evals) {
    const Config keys = section.section(job.name);
    if (!job.sound || !has_type(job, keys, "classification")) continue;
    const auto measured = nlohmann::json::parse(keys.json("loss_name")).get<std::string>();
    if (measured == trained) continue;
    config.warn("loss", fmt::format("is missing, so training uses {} as big_vision does, but "
                                    "evals.{} measures {}",
                                    trained, job.name, measured));
    return;
  }
}

}  // namespace bv
