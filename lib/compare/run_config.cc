#include "lib/compare/run_config.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
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

// Adds the keys of a section that have their default.
void add_defaults(const Config& section, const std::string& path,
                  const std::vector<std::string>& lines, std::set<std::string>& keys) {
  for (const std::string& key : section.keys()) {
    const std::string whole = path.empty() ? key : path + "." + key;
    if (section.is_map(key))
      add_defaults(section.section(key), whole, lines, keys);
    else if (is_default(lines, section.place(key)))
      keys.insert(whole);
  }
}

// Returns whether `key` is `name` with a unit of time: "log_training_steps" for "log_training".
bool is_duration(std::string_view key, std::string_view name) {
  if (!key.starts_with(name)) return false;
  const std::string_view unit = key.substr(name.size());
  return unit == "_steps" || unit == "_examples" || unit == "_epochs" || unit == "_percent" ||
         unit == "_seconds";
}

// Whether the key is `section` or is in it.
bool is_in(std::string_view key, std::string_view section) {
  return key.starts_with(section) &&
         (key.size() == section.size() || key[section.size()] == '.' || key[section.size()] == '[');
}

// Whether no result depends on the key: it is about how the data is read in advance or when the
// training is logged, or bvtrain ignores it.
bool changes_nothing(std::string_view key) {
  const bool reads = key.starts_with("input.") || key.starts_with("evals.");
  if (reads && (key.ends_with(".threads") || key.ends_with(".prefetch"))) return true;
  return is_duration(key, "log_training") || is_duration(key, "log_images") ||
         is_in(key, "profile") || key == "input.cache.in" || key == "input.cache.gib" ||
         key == "prefetch_to_device" || key == "ckpt_timeout";
}

// Whether the key is about when a run saves, or which checkpoints it keeps.
bool is_about_saves(std::string_view key) {
  return is_duration(key, "ckpt") || is_duration(key, "keep_ckpt") || is_in(key, "best") ||
         key == "max_checkpoints_to_keep" || key == "periodic_action_growth_ratios";
}

// Where "2/5" of a part "fold 2/5" is in a split.
struct FoldNumbers {
  size_t number = 0, slash = 0, end = 0;
};

// Finds the first such part from `from` on. (A std::regex would recurse once per blank.)
std::optional<FoldNumbers> find_fold(std::string_view text, size_t from) {
  constexpr std::string_view kFold = "fold";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto digits_end = [&](size_t at) {
    while (at < text.size() && is_digit(text[at])) ++at;
    return at;
  };
  for (size_t at = text.find(kFold, from); at != std::string_view::npos;
       at = text.find(kFold, at + 1)) {
    const auto before = static_cast<unsigned char>(at == 0 ? ' ' : text[at - 1]);
    if (std::isalnum(before) != 0 || before == '_') continue;  // the end of another word
    const size_t number = text.find_first_not_of(' ', at + kFold.size());
    if (number == std::string_view::npos || number == at + kFold.size()) continue;
    const size_t slash = digits_end(number);
    if (slash == number || slash == text.size() || text[slash] != '/') continue;
    const size_t end = digits_end(slash + 1);
    if (end > slash + 1) return FoldNumbers{number, slash, end};
  }
  return std::nullopt;
}

}  // namespace

FlatConfig flat_config(const Config& config) {
  FlatConfig flat;
  flatten(with_plain_numbers(Json::parse(config.json())), "", flat);
  const auto nan = flat.find("nan");
  const bool returns = nan != flat.end() && nan->second == "\"rollback\"";  // to a checkpoint
  std::erase_if(flat, [&](const auto& each) {
    return changes_nothing(each.first) || (!returns && is_about_saves(each.first));
  });
  return flat;
}

std::set<std::string> default_keys(const Config& config, const std::string& text) {
  std::set<std::string> keys;
  add_defaults(config, "", split(text, '\n'), keys);
  return keys;
}

std::string take_fold(FlatConfig& config) {
  std::set<std::string> named;
  FlatConfig without;
  for (const auto& [key, value] : config) {
    if (key != "split" && !key.ends_with(".split")) continue;
    std::string& text = without[key];
    size_t copied = 0;
    for (auto fold = find_fold(value, 0); fold; fold = find_fold(value, fold->end)) {
      named.insert(value.substr(fold->number, fold->end - fold->number));
      text += value.substr(copied, fold->number - copied) + "*";
      copied = fold->slash;
    }
    text += value.substr(copied);
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
