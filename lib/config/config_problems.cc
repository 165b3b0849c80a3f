// Config: the problems and warnings of its keys, with their places.
#include "lib/config/config.h"
#include "lib/config/document.h"
#include "lib/config/key_table.h"
#include "lib/config/node.h"
#include "lib/config/suggest.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Whether a message about an unknown key recommends the key at `path`, or one that begins like
// `path` if that ends in '*'.
bool recommends(const Document& document, std::string_view path) {
  if (!path.ends_with('*')) return document.recommended.contains(std::string(path));
  path.remove_suffix(1);
  const auto next = document.recommended.lower_bound(std::string(path));
  return next != document.recommended.end() && next->starts_with(path);
}

}  // namespace

Place Config::place(std::string_view key) const {
  const Node::Entry* entry = key.empty() ? nullptr : node_->entry(key);
  if (entry == nullptr) return node_->place;
  return absent(entry->value) ? place_of_empty(*entry) : entry->value->place;
}

Error Config::error_at(const Place& place, std::string_view key, std::string_view suffix,
                       std::string_view why) const {
  const bool argument = node_->is_call && !key.empty();
  const std::string path =
      argument ? fmt::format("{}: {}", shown_path(path_), key) : shown_path(join_path(path_, key));
  const std::string name = printable(path + std::string(suffix), std::string::npos);
  if (name.empty()) return Error(Exit::usage, place, why);
  Place shown = place;
  if (!node_->is_call) shown.key.clear();  // `name` includes the key
  return Error(Exit::usage, shown, fmt::format("{}: {}", name, why));
}

Error Config::error_of_value(const Wrong& wrong, std::string_view key) const {
  const bool whole = wrong.suffix.empty() && !node_->is_call;
  return error_at(wrong.node->place, key, wrong.suffix,
                  whole ? with_list_example(join_path(path_, key), wrong.why) : wrong.why);
}

// In a pp call the op is named once: "resize_small: size must be positive, got -3".
Error Config::error_of_key(std::string_view key, std::string_view why) const {
  if (!node_->is_call) return error_at(place(key), key, "", why);
  const bool named = key.empty() || why.starts_with(key);
  return error_at(place(key), "", "", named ? std::string(why) : fmt::format("{} {}", key, why));
}

void Config::give_up(const Error& error) const {
  document_->incomplete.insert(path_);
  document_->record(error);
  throw error;
}

// If the mapping has an unread key with a similar name, reports that key instead of the missing
// one: it is probably misspelt.
void Config::missing(std::string_view key, std::string_view type) const {
  const auto no_mapping = document_->no_mappings.find(path_);
  if (no_mapping != document_->no_mappings.end()) give_up(no_mapping->second);
  for (const Node::Entry& entry : node_->map) {
    if (!node_->is_call && has_row(path_, entry.key)) continue;  // it is spelled as it should be
    const std::vector<std::string> wanted = {std::string(key)};
    const std::string near =
        node_->is_call ? meant_argument(entry.key, wanted) : nearest(entry.key, wanted);
    if (document_->was_read(path_, entry.key) || near.empty()) continue;
    document_->report(path_, entry.key);
    document_->incomplete.insert(path_);  // the message says that there may be more keys
    give_up(error_of_unread(entry, {std::string(key)}));
  }
  const Node::Entry* empty = node_->is_call ? nullptr : node_->entry(key);
  for (const Node::Entry& entry : node_->removed) {
    if (empty == nullptr && entry.key == key) empty = &entry;
  }
  const Error error = error_at(
      empty == nullptr ? node_->place : place_of_empty(*empty), key, "",
      fmt::format("{}: {} is required", empty != nullptr ? "has no value" : "missing", type));
  document_->missing.emplace(error.what(), join_path(path_, key));
  give_up(error);
}

void Config::fail(std::string_view key, std::string_view why) const {
  give_up(error_of_key(key, why));
}

void Config::problem(std::string_view key, std::string_view why) const {
  document_->record(error_of_key(key, why));
}

void Config::none_given(std::string_view prefix, std::string_view why) const {
  const Error error = error_of_key({}, why);
  document_->missing.emplace(error.what(), join_path(path_, prefix) + "*");
  document_->record(error);
}

void Config::warn(std::string_view key, std::string_view why) const {
  const std::string name = shown_path(join_path(path_, key));
  Place shown = place(key);
  if (!name.empty() && !node_->is_call) shown.key.clear();  // `name` includes the key
  const std::string where = shown.text();
  document_->record_warning(fmt::format("{}{}warning: {}{}{}", where, where.empty() ? "" : ": ",
                                        printable(name, std::string::npos),
                                        name.empty() ? "" : ": ", why));
}

void Config::superseded(std::string_view key, std::string_view instead,
                        std::source_location where) const {
  const Node::Entry* entry = node_->entry(key);
  if (entry == nullptr) return;
  read(key, nullptr, false, where);
  if (absent(entry->value)) return;
  Place place = entry->place;
  place.key.clear();  // the message names it
  document_->record_warning(fmt::format("{}: warning: '{}' is not used: {}", place.text(),
                                        shown_path(join_path(path_, key)), instead));
}

// ---- the whole document

void throw_problems(const Config& config) {
  const Document& document = *config.document_;
  std::vector<Error> problems = document.problems;
  std::erase_if(problems, [&](const Error& problem) {
    const auto missing = document.missing.find(problem.what());
    return missing != document.missing.end() && recommends(document, missing->second);
  });
  throw_sorted(problems, document.left_out);
}

size_t problem_count(const Config& config) { return config.document_->problems.size(); }
std::vector<std::string> warnings(const Config& config) { return config.document_->warnings; }

bool attempt(const Config& config, const std::function<void()>& build) {
  try {
    build();
    return true;
  } catch (const Error& error) {
    if (error.code() != Exit::usage) throw;
    config.document_->record(error);
    config.document_->incomplete.insert(config.path_);
    return false;
  }
}

}  // namespace bv
