#include "lib/config/changes.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "lib/config/document.h"
#include "lib/config/node.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Path = std::vector<std::string>;

struct FlatValue {
  Path path;
  std::shared_ptr<Node> value;
};

// Adds the values of a tree that are no mappings, and null only if it `counts` at its path. `path`:
// that of the tree.
void flatten(const std::shared_ptr<Node>& node, const Path& path,
             const std::function<bool(const Path&)>& counts, std::vector<FlatValue>& values) {
  if (node->kind == Node::Kind::null && !counts(path)) return;
  if (node->kind != Node::Kind::map) {
    values.push_back({path, node});
    return;
  }
  for (const Node::Entry& entry : node->map) {
    Path below = path;
    below.push_back(entry.key);
    flatten(entry.value, below, counts, values);
  }
}

// `text`: the key is read as a string, for which 0.50 is not 0.5.
bool same(const Node& a, const Node& b, bool text) {
  if (a.kind != b.kind || a.list.size() != b.list.size() || a.map.size() != b.map.size())
    return false;
  for (size_t i = 0; i < a.list.size(); ++i) {
    if (!same(*a.list[i], *b.list[i], text)) return false;
  }
  for (const Node::Entry& entry : a.map) {
    const Node::Entry* other = b.entry(entry.key);
    if (other == nullptr || !same(*entry.value, *other->value, text)) return false;
  }
  if (text) return a.text == b.text;
  double x = 0, y = 0;
  const bool a_number = !convert(a, x), b_number = !convert(b, y);
  if (a_number || b_number) return a_number && b_number && x == y;
  return a.text == b.text;
}

// Whether a key has this name, and a list of ops as its value.
bool holds_ops(std::string_view key) {
  return key == "pp" || key == "pp_fn" || key == "pp_train" || key == "pp_eval";
}

// Returns a list of ops without the blanks outside of its strings, which mean nothing.
std::string without_blanks(std::string_view ops) {
  std::string out;
  char quote = '\0';  // of the string that `i` is in
  for (size_t i = 0; i < ops.size(); ++i) {
    const char c = ops[i];
    if (quote == '\0' && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) continue;
    out += c;
    if (quote == '\0') {
      if (c == '\'' || c == '"') quote = c;
    } else if (c == '\\' && i + 1 < ops.size()) {
      out += ops[++i];
    } else if (c == quote) {
      quote = '\0';
    }
  }
  return out;
}

bool same_ops(const Node& a, const Node& b) {
  return a.kind == Node::Kind::scalar && b.kind == Node::Kind::scalar &&
         without_blanks(a.text) == without_blanks(b.text);
}

const FlatValue* find_value(const std::vector<FlatValue>& values, const Path& path) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const FlatValue& value) { return value.path == path; });
  return found == values.end() ? nullptr : &*found;
}

}  // namespace

std::string ConfigChange::key() const { return join(path, "."); }

std::vector<ConfigChange> config_changes(const Config& before, const Config& now) {
  std::vector<FlatValue> old_values, new_values;
  const Document& document = *now.document_;
  const auto counts = [&](const Path& path) {
    const bool of_optimizer = !path.empty() && path[0] == "optax";
    return (document.reads.empty() && of_optimizer) || document.own_nulls.contains(join(path, "."));
  };
  flatten(effective(document, before.node_, ""), {}, counts, old_values);
  flatten(effective(document, now.node_, ""), {}, counts, new_values);
  const std::string none = "not set";
  std::vector<ConfigChange> changes;
  for (const FlatValue& value : new_values) {
    const FlatValue* old = find_value(old_values, value.path);
    const Path mapping(value.path.begin(), std::prev(value.path.end()));
    const bool text = now.document_->is_text(join(mapping, "."), value.path.back());
    const bool ops = holds_ops(value.path.back());
    if (old != nullptr && ops && same_ops(*old->value, *value.value)) continue;
    if (old == nullptr || !same(*old->value, *value.value, text))
      changes.push_back({value.path, old ? to_flow(*old->value) : none, to_flow(*value.value)});
  }
  for (const FlatValue& value : old_values) {
    if (find_value(new_values, value.path) == nullptr)
      changes.push_back({value.path, to_flow(*value.value), none});
  }
  return changes;
}

}  // namespace bv
