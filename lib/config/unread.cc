// Config::done(): reports the keys and arguments that were not read. For a pp call, the message
// shows the op's signature, which is built from the arguments that the op has read:
// "resize(size, method='bilinear', key=None)".
#include <algorithm>

#include "lib/config/document.h"
#include "lib/config/familiar_words.h"
#include "lib/config/key_table.h"
#include "lib/config/node.h"
#include "lib/config/suggest.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns a default as a Python literal.
std::string literal(const Node& node) {
  if (node.kind == Node::Kind::null) return "None";
  if (node.kind == Node::Kind::list) {
    std::string items;
    for (const auto& item : node.list) items += (items.empty() ? "" : ", ") + literal(*item);
    return "[" + items + "]";
  }
  if (node.style == Node::Style::quoted) return fmt::format("'{}'", printable(node.text));
  if (node.text == "true") return "True";
  return node.text == "false" ? "False" : node.text;
}

// Returns a mapping of another kind than the one at `path` in which this run has read `key`.
// Excludes the arguments of ops, and keys so short that they mean something else there.
std::optional<std::string> read_elsewhere(const Document& document, const std::string& path,
                                          const std::string& key) {
  const auto evaluator = [](const std::string& mapping) { return mapping.starts_with("evals."); };
  if (key.size() < 3) return std::nullopt;
  for (const Document::Read& read : document.reads) {
    const bool call = read.mapping.find(": ") != std::string::npos;
    const bool other_evaluator = evaluator(path) && evaluator(read.mapping);
    // Another data set may have another source, whose keys are other ones.
    const bool same_kind = table_place(read.mapping) == table_place(path);
    if (read.key == key && !same_kind && !call && !other_evaluator) return read.mapping;
  }
  return std::nullopt;
}

// Looks up the counterpart of `key` in the mapping at `path`. Returns nothing if that is a key of
// the same mapping which its reader, such as the model, does not support.
FamiliarWord familiar_word(const Document& document, const std::string& path,
                           const std::string& key) {
  if (key == "include" && path.find(": ") == std::string::npos) {  // not an argument of an op
    return {"", path.empty() ? "only a file can include another"
                             : "an included file is named at the top level only"};
  }
  FamiliarWord word = familiar_key(path, key);
  if (document.incomplete.contains(path) || !word.ours.starts_with(path + ".")) return word;
  const std::string ours = word.ours.substr(path.size() + 1);
  const bool here = ours.find('.') == std::string::npos;
  return here && !document.was_asked(path, ours) ? FamiliarWord{} : word;
}

// Explains what may be wrong with a key without a value. YAML reads "lr:0.1" and "lr 0.1" as such
// keys.
std::string without_value(const Node::Entry& entry) {
  if (entry.value->kind != Node::Kind::null) return "";
  const size_t end = entry.key.find_first_of(":= ");
  if (end == 0 || end == std::string::npos) return "";
  const size_t value = entry.key.find_first_not_of(":= ", end);
  const std::string name = printable(entry.key.substr(0, end));
  if (value == std::string::npos) return "";
  return fmt::format(
      "{}: write '{}: {}'",
      entry.key[end] == ':' ? "a space is missing after the ':'" : "a ':' is missing", name,
      printable(entry.key.substr(value)));
}

}  // namespace

const Node::Entry* cut_entry(const Node& mapping, const Node::Entry& entry) {
  const auto without_value = [](const Node::Entry& other) {
    return other.value->kind == Node::Kind::null;
  };
  const auto opens = [](const Node::Entry& other) {
    const std::string& text = other.value->text;
    return other.value->kind == Node::Kind::scalar && other.value->style == Node::Style::plain &&
           std::count(text.begin(), text.end(), '(') > std::count(text.begin(), text.end(), ')');
  };
  const auto& entries = mapping.map;
  const auto here = entries.begin() + (&entry - entries.data());
  const auto end = std::find_if_not(here, entries.end(), without_value);
  const bool closed = std::any_of(
      here, end, [](const Node::Entry& other) { return other.key.find(')') != std::string::npos; });
  const auto cut = std::find_if_not(std::make_reverse_iterator(end), entries.rend(), without_value);
  return closed && cut != entries.rend() && opens(*cut) ? &*cut : nullptr;
}

std::string call_signature(const Document& document, const std::string& path, bool complete) {
  std::string arguments;
  const auto add = [&](const std::string& text) {
    arguments += (arguments.empty() ? "" : ", ") + text;
  };
  for (const Document::Read& read : document.reads) {
    if (read.mapping != path) continue;
    const bool required = read.fallback == nullptr && !read.optional;
    add(required
            ? read.key
            : fmt::format("{}={}", read.key, read.fallback ? literal(*read.fallback) : "None"));
  }
  // Arguments that the op requested but did not read, because there were too many positional
  // arguments.
  for (const std::string& key : document.known(path)) {
    if (!document.was_read(path, key)) add(key.starts_with('*') ? key : key + "=None");
  }
  if (!complete) add("...");
  return fmt::format("{}({})", shown_path(path), arguments);
}

std::string meant_argument(std::string_view name, const std::vector<std::string>& known) {
  if (const std::string near = nearest(name, known); !near.empty()) return near;
  const auto ends = [&](const std::string& other) {
    return other.ends_with(fmt::format("_{}", name));
  };
  return std::count_if(known.begin(), known.end(), ends) == 1
             ? *std::find_if(known.begin(), known.end(), ends)
             : "";
}

Error Config::error_of_unread(const Node::Entry& entry,
                              const std::vector<std::string>& known) const {
  std::string near = node_->is_call ? meant_argument(entry.key, known) : nearest(entry.key, known);
  // The similar key is already given, and this one belongs to another plug-in: it is not a
  // misspelling.
  if (!node_->is_call && node_->entry(near) != nullptr && has_row(path_, entry.key)) near.clear();
  const std::string meant = near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
  if (node_->is_call) {
    if (const std::string advice = familiar_key(path_, entry.key).advice; !advice.empty()) {
      return error_at(entry.place, "", "",
                      fmt::format("unknown argument '{}': {}", printable(entry.key), advice));
    }
    const bool complete = !document_->incomplete.contains(path_);
    return error_at(entry.place, "", "",
                    fmt::format("unknown argument '{}'{}; the op is {}", printable(entry.key),
                                meant, call_signature(*document_, path_, complete)));
  }
  Place place = entry.place;
  place.key.clear();  // the message names it
  const auto unknown = [&](std::string_view hint) {
    return Error(Exit::usage, place,
                 fmt::format("unknown key '{}'{}",
                             printable(shown_path(join_path(path_, entry.key))), hint));
  };
  if (const std::string why = without_value(entry); !why.empty()) return unknown("; " + why);
  const FamiliarWord familiar = familiar_word(*document_, path_, entry.key);
  document_->recommended.insert(familiar.ours);
  if (!familiar.advice.empty()) return unknown(": " + familiar.advice);
  std::optional<std::string> mapping = well_known_mapping(path_, entry.key);
  const std::vector<std::string> types = evaluators_with_key(path_, entry.key);
  const bool own = std::any_of(types.begin(), types.end(), [&](const std::string& type) {
    return has("type") ? is_text("type", type) : path_.ends_with("." + type);
  });
  if (!mapping && !types.empty() && !own)
    return unknown(fmt::format(": it is a key of evaluators of type {}", join(types, ", ")));
  if (!mapping) mapping = read_elsewhere(*document_, path_, entry.key);
  if (mapping) {
    document_->recommended.insert(join_path(*mapping, entry.key));
    return unknown(mapping->empty() ? ": it belongs at the top level"
                                    : fmt::format(": it belongs below '{}'", *mapping));
  }
  if (!near.empty()) {
    document_->recommended.insert(join_path(path_, near));
    return unknown(meant);
  }
  if (known.empty()) return unknown("; none is known here");
  return unknown("; known here: " + nearest_names(entry.key, known, "bvtrain --explain lists all"));
}

// Calls done() on the sections that were returned below a key.
void Config::done_below(const std::shared_ptr<Node>& node,
                        const std::shared_ptr<Document>& document, const std::string& path) {
  if (node->kind == Node::Kind::map) Config(node, document, path).done();
  for (size_t i = 0; i < node->list.size(); ++i) {
    const std::string item = item_path(*node, path, i);
    const bool handed_out = !document->known(item).empty();
    if (handed_out || node->list[i]->kind == Node::Kind::list)
      done_below(node->list[i], document, item);
  }
}

void Config::done(bool although_incomplete) const {
  // If the reader of this mapping stopped early, it might have read other keys, but never familiar
  // words.
  const bool only_familiar = document_->incomplete.contains(path_) && !although_incomplete;
  if (document_->ignored.contains(path_)) return;
  for (const Node::Entry& entry : node_->map) {
    const bool known_null =
        entry.value->kind == Node::Kind::null && document_->was_asked(path_, entry.key);
    if (const Node::Entry* cut = cut_entry(*node_, entry)) {
      document_->record(error_at(cut->value->place, cut->key, "", kCutByComma));
      continue;
    }
    if (known_null || document_->ignored.contains(join_path(path_, entry.key))) continue;
    if (!document_->was_read(path_, entry.key)) {
      if (only_familiar && familiar_word(*document_, path_, entry.key).advice.empty()) continue;
      std::vector<std::string> known = document_->known(path_);
      // A component that called has() for a key and then did not read it supports the key, but does
      // not use it here. It must not be suggested.
      std::erase(known, entry.key);
      if (path_.empty()) std::erase(known, "total_percent");  // it is read only to be rejected
      if (document_->report(path_, entry.key)) document_->record(error_of_unread(entry, known));
    } else if (document_->is_section(path_, entry.key)) {
      // The reader stopped before it read this section.
      const bool left = document_->incomplete.contains(path_) &&
                        document_->known(join_path(path_, entry.key)).empty();
      if (left && entry.value->kind == Node::Kind::map) continue;
      done_below(entry.value, document_, join_path(path_, entry.key));
    }
  }
  if (node_->is_call && positional_left() > 0 && !only_familiar) {
    const size_t given = node_->positional.size();
    document_->record(error_at(
        node_->positional[node_->taken]->place, "", "",
        fmt::format("too many positional arguments: {} given, {} can be used; the op is {}", given,
                    node_->taken, call_signature(*document_, path_, /*complete=*/true))));
  }
}

void Config::mark_read(std::string_view key) const {
  document_->ignored.insert(join_path(path_, key));
  if (key.empty()) node_->taken = node_->positional.size();
}

}  // namespace bv
