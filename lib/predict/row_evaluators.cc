#include "lib/predict/row_evaluators.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lib/train/keys.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/json_text.h"

namespace bv {
namespace {

using Json = nlohmann::json;  // compares objects without regard to the order of keys

// Returns the object in the text; an empty object if the text holds none.
Json parse_object(const std::string& text) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : Json::object();
}

// Returns the evaluators without the keys that do not affect what they measure.
Json essence(Json all) {
  for (auto evaluator = all.begin(); evaluator != all.end(); ++evaluator) {
    if (!evaluator->is_object()) continue;
    for (auto key = evaluator->begin(); key != evaluator->end();) {
      // The name does not matter, and is_harmless() accepts none with a dot: so use x.
      const bool left_out = is_harmless("evals.x." + key.key());
      key = left_out ? evaluator->erase(key) : std::next(key);
    }
  }
  return all;
}

// Returns whether two evaluators measure the same. If the loss of the run is known for only one of
// them, it is left out.
bool same(Json a, Json b) {
  if (a.is_object() && b.is_object() && a.contains(kLossOfRun) != b.contains(kLossOfRun)) {
    a.erase(kLossOfRun);
    b.erase(kLossOfRun);
  }
  return a == b;
}

// Returns whether the rows of two sets of evaluators can share a file: evaluators with the same
// name measure the same, and one set includes the other.
bool fit(const Json& a, const Json& b) {
  size_t common = 0;
  for (const auto& [name, keys] : a.items()) {
    if (!b.contains(name)) continue;
    if (!same(b.at(name), keys)) return false;
    ++common;
  }
  return common == std::min(a.size(), b.size());
}

}  // namespace

std::string add_to_row_evaluators(const Workdir& rows, const std::string& evals) {
  Json all = parse_object(read_file_if_any(rows.config()).value_or(""));
  const Json next = parse_object(evals);
  if (!fit(essence(all), essence(next))) {
    throw Error(Exit::usage, rows.dir(),
                "has rows of other evaluators; choose another folder with --output, or move this "
                "one away");
  }
  for (const auto& [name, keys] : next.items()) all[name] = keys;
  return json_text(all) + "\n";
}

}  // namespace bv
