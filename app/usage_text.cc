#include "app/usage_text.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>

#include "lib/config/config.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns the parts of `text` in the places of the '*' of `pattern`; nullopt if it does not fit.
std::optional<std::vector<std::string>> fitted(const std::string& text,
                                               const std::string& pattern) {
  const std::vector<std::string> fixed = split(pattern, '*');
  if (!text.starts_with(fixed.front())) return std::nullopt;
  std::vector<std::string> parts;
  size_t begin = fixed.front().size();
  for (size_t i = 1; i < fixed.size(); ++i) {
    const bool last = i + 1 == fixed.size();
    if (last && !text.ends_with(fixed[i])) return std::nullopt;
    const size_t end = last ? text.size() - fixed[i].size() : text.find(fixed[i], begin);
    if (end == std::string::npos || end < begin) return std::nullopt;
    parts.push_back(text.substr(begin, end - begin));
    begin = end + fixed[i].size();
  }
  return parts;
}

}  // namespace

std::string usage_text(const std::string& message, const std::string& command) {
  if (const auto parts = fitted(message, "*: At Most 1 required but received *"))
    return fmt::format("{}: is given {} times", (*parts)[0], (*parts)[1]);
  if (const auto parts = fitted(message, "*: 1 required * missing"))
    return fmt::format("{}: needs a value", (*parts)[0]);
  if (const auto parts = fitted(message, "*: * not in {*}"))
    return fmt::format("{}: expected one of {}, got '{}'", (*parts)[0],
                       join(split((*parts)[2], ','), ", "), (*parts)[1]);
  if (const auto parts = fitted(message, "Could not convert: * = *"))
    return fmt::format("{}: a value of another type is expected, got '{}'", (*parts)[0],
                       (*parts)[1]);
  const auto parts = fitted(message, "* is required");
  if (!parts || (*parts)[0].starts_with('-')) return message;
  std::string name;  // of a positional argument, as --help writes it
  for (const char c : (*parts)[0])
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format("the argument {} is missing; see {} --help", name, command);
}

std::string unknown_command_text(const std::string& word, const std::vector<std::string>& known,
                                 bool first) {
  if (first && word == "train")
    return "there is no command 'train'; to train, write bvtrain --config FILE";
  const bool config = word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
  if (first && config)
    return fmt::format("unknown command '{}'; to train with this config, write --config {}", word,
                       word);
  return unknown_name_message("command", word, known);
}

}  // namespace bv
