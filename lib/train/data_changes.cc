#include "lib/train/data_changes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lib/config/load_config.h"
#include "lib/util/json_text.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const std::string kEvals = "evals.";
constexpr const char* kOtherLabels = " with other labels, class names or order";

using Path = std::vector<std::string>;
const Path kTrainingData = {"input", "data"};

Path data_of(const std::string& evaluator) { return {"evals", evaluator, "data"}; }

}  // namespace

nlohmann::json data_summary(const Recipe& recipe) {
  nlohmann::json evals = nlohmann::json::object(), labels = nlohmann::json::object(),
                 content = nlohmann::json::object();
  for (const EvalJob& job : recipe.evals) {
    evals[job.name] = job.evaluator->examples();
    labels[kEvals + job.name] = fmt::format("{:016x}", job.evaluator->fingerprint());
    content[kEvals + job.name] = fmt::format("{:016x}", job.evaluator->content());
  }
  content["input"] = fmt::format("{:016x}", recipe.data->content());
  return {{"input", fmt::format("{:016x}", recipe.data->fingerprint())},
          {"examples", recipe.data->size()},
          {"evals", evals},
          {"labels", labels},
          {"content", content}};
}

std::vector<ConfigChange> data_changes(const nlohmann::json& before, const nlohmann::json& now) {
  const auto count = [](const nlohmann::json& examples) {
    return human_count(examples.get<int64_t>()) + " examples";
  };
  std::vector<ConfigChange> changes;
  if (before.at("input") != now.at("input")) {
    const bool counted = before.contains("examples");  // not in older checkpoints
    const bool equal = counted && before.at("examples") == now.at("examples");
    changes.push_back({kTrainingData, counted ? count(before.at("examples")) : "other data",
                       count(now.at("examples")) + (equal ? kOtherLabels : "")});
  }
  for (const auto& [name, examples] : now.at("evals").items()) {
    if (before.at("evals").value(name, examples) != examples)
      changes.push_back({data_of(name), count(before.at("evals").at(name)), count(examples)});
  }
  const std::string unknown = fmt::format("{:016x}", 0);  // older versions hashed less data
  const auto compare = [&](const char* hashes, const char* how) {
    const auto known = before.value(hashes, nlohmann::json::object());  // not in older checkpoints
    for (const auto& [name, hash] : now.at(hashes).items()) {
      const bool trains = name == "input";
      const std::string evaluator = trains ? "" : name.substr(kEvals.size());
      const Path path = trains ? kTrainingData : data_of(evaluator);
      const bool told = std::any_of(changes.begin(), changes.end(),
                                    [&](const auto& change) { return change.path == path; });
      const std::string old = known.value(name, hash.get<std::string>());
      if (told || old == unknown || old == hash) continue;
      const std::string examples =
          count(trains ? now.at("examples") : now.at("evals").at(evaluator));
      changes.push_back({path, examples, examples + how});
    }
  };
  compare("labels", kOtherLabels);
  compare("content", " with other content");
  return changes;
}

bool changes_examples(const ConfigChange& change) {
  const Path& path = change.path;
  return path == kTrainingData || (path.size() == 3 && path == data_of(path[1]));
}

bool chooses_examples(const ConfigChange& change, const ConfigChange& data) {
  static const std::set<std::string> choosing = {"data",       "data_dir", "datasets",
                                                 "quarantine", "sample",   "train"};
  static const std::set<std::string> of_evaluators = {"distance", "file", "image", "text"};
  const Path& path = change.path;
  const auto owner_end = data.path.end() - 1;
  const auto [inside, end] = std::mismatch(path.begin(), path.end(), data.path.begin(), owner_end);
  if (end != owner_end || inside == path.end() || path == data.path) return false;
  if (data.path != kTrainingData && of_evaluators.contains(*inside)) return true;
  return std::any_of(inside, path.end(),
                     [](const std::string& name) { return choosing.contains(name); });
}

std::string other_examples_text(const ConfigChange& change) {
  return fmt::format(
      "{}: other examples than in training ({}; now {}); a slice such as train[80%:] may now hold "
      "images that the model was trained on",
      change.key(), change.before, change.after);
}

std::vector<std::string> other_examples(const Restored& checkpoint, const Config& config,
                                        const std::map<std::string, EvalExamples>& evals) {
  const nlohmann::json& meta = checkpoint.meta;
  if (!meta.contains("data") || meta.value("synthetic", false)) return {};
  const nlohmann::json& before = meta.at("data");
  nlohmann::json now = before;
  for (const char* of_evals : {"evals", "labels", "content"})
    now[of_evals] = nlohmann::json::object();
  for (const auto& [name, each] : evals) {
    now["evals"][name] = each.count;
    now["content"][kEvals + name] = fmt::format("{:016x}", each.content);
  }
  const Config stored = parse_config_json(run_config(checkpoint), checkpoint.folder);
  const std::vector<ConfigChange> keys = config_changes(stored, config);
  std::vector<std::string> lines;
  for (const ConfigChange& change : data_changes(before, now)) {
    const bool chosen = std::ranges::any_of(
        keys, [&](const ConfigChange& other) { return chooses_examples(other, change); });
    if (!chosen) lines.push_back(other_examples_text(change));
  }
  return lines;
}

std::vector<Error> data_disagreements(const std::vector<nlohmann::json>& summaries) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> others;
  for (size_t r = 1; r < summaries.size(); ++r) {
    for (const ConfigChange& change : data_changes(summaries[0], summaries[r])) {
      others[{change.key(), fmt::format("{}, rank 0 has {}", change.after, change.before)}]
          .push_back(std::to_string(r));
    }
  }
  std::vector<Error> problems;
  for (const auto& [difference, ranks] : others) {
    problems.emplace_back(
        Exit::usage, difference.first,
        fmt::format("rank{} {}; all ranks must read the same data",
                    ranks.size() == 1 ? fmt::format(" {} has", ranks[0])
                                      : fmt::format("s {} have", short_list(ranks)),
                    difference.second));
  }
  return problems;
}

void check_same_data(Group& group, const nlohmann::json& summary) {
  if (group.size() == 1) return;
  std::vector<nlohmann::json> summaries;
  for (const std::string& text : group.gather_text(json_text(summary), "data of ranks"))
    summaries.push_back(nlohmann::json::parse(text));
  std::vector<Error> problems = data_disagreements(summaries);
  if (!problems.empty()) throw Error::all(Exit::usage, std::move(problems));
}

}  // namespace bv
