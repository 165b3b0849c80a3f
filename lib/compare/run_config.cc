#include "lib/compare/run_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <utility>

#include "lib/util/json_text.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Json = nlohmann::json;

constexpr const char* kAbsent = "-";

bool holds_object(const Json& value) {
  if (value.is_object()) return true;
  return value.is_array() && std::any_of(value.begin(), value.end(), holds_object);
}

// Spells equal numbers alike: 1.0 becomes 1.
Json with_plain_numbers(Json value) {
  if (value.is_number_float()) return Json::parse(fmt::format("{}", value.get<double>()));
  if (value.is_structured()) {
    for (Json& item : value) item = with_plain_numbers(std::move(item));
  }
  return value;
}

void flatten(const Json& value, const std::string& path, FlatConfig& out) {
  if (value.is_null()) return;
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, item] : value.items())
      flatten(item, path.empty() ? key : path + "." + key, out);
  } else if (value.is_array() && holds_object(value)) {
    for (size_t i = 0; i < value.size(); ++i)
      flatten(value[i], fmt::format("{}[{}]", path, i), out);
  } else {
    out[path] = json_text(value);
  }
}

// Whether the comment on the line of `place` marks the value as a default.
bool is_default(const std::vector<std::string>& lines, const Place& place) {
  if (place.line < 1 || place.line > std::ssize(lines)) return false;
  return lines[static_cast<size_t>(place.line) - 1].ends_with("  # default");
}

// Removes thread counts that the user has not set: they depend on the machine's cores.
void drop_default_threads(const Config& section, const std::string& path,
                          const std::vector<std::string>& lines, FlatConfig& flat) {
  for (const std::string& key : section.keys()) {
    const std::string whole = path.empty() ? key : path + "." + key;
    if (section.is_map(key))
      drop_default_threads(section.section(key), whole, lines, flat);
    else if ((key == "threads" || key == "compute_threads") &&
             is_default(lines, section.place(key)))
      flat.erase(whole);
  }
}

}  // namespace

FlatConfig flat_config(const Config& config, const std::string& text) {
  FlatConfig flat;
  flatten(with_plain_numbers(Json::parse(config.json())), "", flat);
  drop_default_threads(config, "", split(text, '\n'), flat);
  return flat;
}

std::string take_fold(FlatConfig& config) {
  static const std::regex fold(R"((\bfold +)(\d+)/(\d+))");
  std::set<std::string> named;
  FlatConfig without;
  for (const auto& [key, value] : config) {
    if (key != "split" && !key.ends_with(".split")) continue;
    for (std::sregex_iterator match(value.begin(), value.end(), fold), end; match != end; ++match)
      named.insert((*match)[2].str() + "/" + (*match)[3].str());
    without[key] = std::regex_replace(value, fold, "$1*/$3");
  }
  if (named.size() != 1) return "";
  for (auto& [key, value] : without) config[key] = std::move(value);
  return *named.begin();
}

std::string value_text(const std::string& json) {
  if (json.empty()) return kAbsent;
  const Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (value.is_string()) {
    // A string that looks like another type keeps its quotes.
    const auto text = value.get<std::string>();
    return text.empty() || text == kAbsent || Json::accept(text) ? json : text;
  }
  if (!value.is_array()) return json;
  std::vector<std::string> items;
  for (const Json& item : value) items.push_back(value_text(item.dump()));
  return "[" + join(items, ", ") + "]";
}

}  // namespace bv
