// Config::done(): reports the keys and arguments that nobody has read. For a pp call, the message
// shows the signature of the op, which is made from the arguments that the op has read:
// "resize(size, method='bilinear', key=None)".
#include <algorithm>

#include "lib/config/document.h"
#include "lib/config/node.h"
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

}  // namespace

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
  // Arguments that the op asked for without reading them, because there were too many positional
  // arguments.
  for (const std::string& key : document.known(path)) {
    if (!document.was_read(path, key)) add(key.starts_with('*') ? key : key + "=None");
  }
  if (!complete) add("...");
  return fmt::format("{}({})", shown_path(path), arguments);
}

std::string Config::unread_line(const Node::Entry& entry,
                                const std::vector<std::string>& known) const {
  const std::string near = nearest(entry.key, known);
  const std::string meant = near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
  if (node_->is_call) {
    const bool complete = !document_->incomplete.contains(path_);
    return line(entry.place, "", "",
                fmt::format("unknown argument '{}'{}; the op is {}", printable(entry.key), meant,
                            call_signature(*document_, path_, complete)));
  }
  const std::string hint = !near.empty()   ? meant
                           : known.empty() ? "; none is known here"
                                           : fmt::format("; known here: {}", join(known, ", "));
  return Error(Exit::usage, entry.place.text(),
               fmt::format("unknown key '{}'{}", printable(shown_path(join_path(path_, entry.key))),
                           hint))
      .what();
}

// Calls done() on the sections that were handed out below a key.
void Config::done_below(const std::shared_ptr<Node>& node,
                        const std::shared_ptr<Document>& document, const std::string& path) {
  if (node->kind == Node::Kind::map) Config(node, document, path).done();
  for (size_t i = 0; i < node->list.size(); ++i) {
    done_below(node->list[i], document, item_path(*node, path, i));
  }
}

void Config::done(bool although_incomplete) const {
  if (document_->incomplete.contains(path_) && !although_incomplete) return;
  if (document_->ignored.contains(path_)) return;
  for (const Node::Entry& entry : node_->map) {
    const bool known_null =
        entry.value->kind == Node::Kind::null && document_->was_asked(path_, entry.key);
    if (known_null || document_->ignored.contains(join_path(path_, entry.key))) continue;
    if (!document_->was_read(path_, entry.key)) {
      std::vector<std::string> known = document_->known(path_);
      // A component that asked has() for a key and then did not read it knows the key, but does not
      // use it here. It must not be suggested.
      std::erase(known, entry.key);
      if (document_->report(path_, entry.key)) document_->record(unread_line(entry, known));
    } else if (document_->is_section(path_, entry.key)) {
      done_below(entry.value, document_, join_path(path_, entry.key));
    }
  }
  if (node_->is_call && positional_left() > 0) {
    const size_t given = node_->positional.size();
    document_->record(line(
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
