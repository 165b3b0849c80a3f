#include "lib/predict/row_evaluators.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lib/config/changes.h"
#include "lib/config/load_config.h"
#include "lib/train/keys.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/json_text.h"
#include "lib/util/pattern.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Json = nlohmann::json;  // compares objects without regard to the order of keys

// Returns the object in the text; an empty object if the text holds none.
Json parse_object(const std::string& text) {
  Json object = shallow_json(text);
  return object.is_object() ? object : Json::object();
}

Json evaluators_of_rows(const Workdir& rows) {
  return parse_object(read_file_if_any(rows.config()).value_or(""));
}

// Removes a member that is not a key of the config and returns its value; null if there is none.
Json take_member(Json& evaluator, const char* name) {
  if (!evaluator.is_object() || !evaluator.contains(name)) return nullptr;
  Json value = evaluator.at(name);
  evaluator.erase(name);
  return value;
}

// `path` begins with `evals` and the evaluator's name. The name does not matter, and is_harmless()
// accepts none with a dot: so use x.
bool is_harmless_key(std::vector<std::string> path) {
  path[1] = "x";
  return is_harmless(join(path, "."));
}

// Returns the evaluator without the keys that do not affect what it measures.
Json essence(Json evaluator) {
  if (!evaluator.is_object()) return evaluator;
  for (auto key = evaluator.begin(); key != evaluator.end();)
    key = is_harmless_key({"evals", "", key.key()}) ? evaluator.erase(key) : std::next(key);
  return evaluator;
}

// Returns the value of a key, whose path begins with `evals` and the evaluator's name; null if
// there is none.
Json value_at(const Json& evaluator, const std::vector<std::string>& path) {
  const Json* value = &evaluator;
  for (size_t i = 2; i < path.size(); ++i) {
    if (!value->is_object() || !value->contains(path[i])) return nullptr;
    value = &value->at(path[i]);
  }
  return *value;
}

// Compares the keys as a restart of the run compares them (changes_since()).
bool same_with_defaults(const std::string& name, const Json& before, const Json& next,
                        bool same_data, const Config& read) {
  static const Pattern data_paths{std::string(kDataPaths)};
  Json all;
  all["evals"][name] = before;
  const Config stored = parse_config_json(json_text(all), "config.yaml");
  const std::vector<ConfigChange> changes = config_changes(stored, read);
  return std::ranges::all_of(changes, [&](const ConfigChange& change) {
    const std::vector<std::string>& path = change.path;
    if (path.size() < 3 || path[0] != "evals" || path[1] != name) return true;
    // The stored text does not keep the spelling of numbers.
    if (value_at(before, path) == value_at(next, path)) return true;
    return is_harmless_key(path) || (same_data && data_paths.matches(change.key()));
  });
}

// Returns whether the loss, a member kLossOfRun, is known to be that of the config.
bool is_loss_of(const Config& read, const Json& loss) {
  return read.has("loss") && loss.is_object() && loss.contains("loss") &&
         loss.at("loss") == Json::parse(read.json("loss"), nullptr, /*allow_exceptions=*/false);
}

// Returns whether two evaluators measure the same. If the loss of the run is known for only one of
// them, it is left out.
bool same_evaluator(const std::string& name, Json before, Json next, const Config* read) {
  const Json loss = take_member(before, kLossOfRun), next_loss = take_member(next, kLossOfRun);
  const Json content = take_member(before, kContentOfData),
             next_content = take_member(next, kContentOfData);
  if (!loss.is_null() && !next_loss.is_null() && loss != next_loss) return false;
  if (essence(before) == essence(next)) return true;
  if (read == nullptr || !before.is_object() || !next.is_object()) return false;
  // A default of `read` may follow from its loss.
  if (!loss.is_null() && next_loss.is_null() && !is_loss_of(*read, loss)) return false;
  const bool same_data = !content.is_null() && content == next_content;
  return same_with_defaults(name, before, next, same_data, *read);
}

// Returns whether the rows of two sets of evaluators can share a file: evaluators with the same
// name measure the same, and one set includes the other.
bool fit(const Json& before, const Json& next, const Config* read) {
  size_t common = 0;
  for (const auto& [name, keys] : before.items()) {
    if (!next.contains(name)) continue;
    if (!same_evaluator(name, keys, next.at(name), read)) return false;
    ++common;
  }
  return common == std::min(before.size(), next.size());
}

}  // namespace

std::string add_to_row_evaluators(const Workdir& rows, const std::string& evals,
                                  const Config* read) {
  Json all = evaluators_of_rows(rows);
  const Json next = parse_object(evals);
  if (!fit(all, next, read)) {
    throw Error(Exit::usage, rows.dir(),
                "has rows of other evaluators; choose another folder with --output, or move this "
                "one away");
  }
  for (const auto& [name, keys] : next.items()) all[name] = keys;
  return json_text(all) + "\n";
}

bool fits_row_evaluators(const Workdir& rows, const std::string& evals) {
  return fit(evaluators_of_rows(rows), parse_object(evals), nullptr);
}

std::vector<std::string> evaluators_without_rows(const Workdir& rows, const std::string& evals) {
  const Json all = evaluators_of_rows(rows), next = parse_object(evals);
  std::vector<std::string> names;
  if (all.empty()) return names;  // not known
  for (const auto& [name, keys] : next.items()) {
    if (!all.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace bv
