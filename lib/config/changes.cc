#include "lib/config/changes.h"

#include <algorithm>
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

// Adds the values of a tree that are neither mappings nor null. `path`: that of the tree.
void flatten(const std::shared_ptr<Node>& node, const Path& path, std::vector<FlatValue>& values) {
  if (node->kind == Node::Kind::null) return;
  if (node->kind != Node::Kind::map) {
    values.push_back({path, node});
    return;
  }
  for (const Node::Entry& entry : node->map) {
    Path below = path;
    below.push_back(entry.key);
    flatten(entry.value, below, values);
  }
}

// `text`: the key is read as a text, for which 0.50 is not 0.5.
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

const FlatValue* find_value(const std::vector<FlatValue>& values, const Path& path) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const FlatValue& value) { return value.path == path; });
  return found == values.end() ? nullptr : &*found;
}

}  // namespace

std::string ConfigChange::key() const { return join(path, "."); }

std::vector<ConfigChange> config_changes(const Config& before, const Config& now) {
  std::vector<FlatValue> old_values, new_values;
  flatten(effective(*now.document_, before.node_, ""), {}, old_values);
  flatten(effective(*now.document_, now.node_, ""), {}, new_values);
  const std::string none = "not set";
  std::vector<ConfigChange> changes;
  for (const FlatValue& value : new_values) {
    const FlatValue* old = find_value(old_values, value.path);
    const Path mapping(value.path.begin(), std::prev(value.path.end()));
    const bool text = now.document_->is_text(join(mapping, "."), value.path.back());
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
