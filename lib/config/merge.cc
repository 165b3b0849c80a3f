// Loading a config: included files, and the overrides of the command line.
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <tuple>

#include "lib/config/document.h"
#include "lib/config/key_table.h"
#include "lib/config/node.h"
#include "lib/util/file.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable merge_keys(
    "", {},
    {{"include", "string", "none",
      "Another YAML file, over which this one is merged: keys in this file win, "
      "nested mappings are merged the same way, and lists are replaced as a whole. "
      "The path is relative to this file. The other file may itself include one.",
      "include/imagenet_evals.yaml", "-"}});

// Returns "total" for "total_steps", and "" for a key that is not a duration.
std::string_view duration_name(std::string_view key) {
  for (const std::string_view unit : {"_steps", "_examples", "_epochs", "_percent", "_seconds"}) {
    if (key.size() > unit.size() && key.ends_with(unit)) {
      return key.substr(0, key.size() - unit.size());
    }
  }
  return "";
}

// Whether `entry` gives a duration. Null does not. A negative value does: its reader takes it for
// "none", and that replaces the duration in another unit, too.
bool gives_duration(const Node::Entry& entry) { return entry.value->kind == Node::Kind::scalar; }

bool other_unit(std::string_view a, std::string_view b) {
  const std::string_view name = duration_name(a);
  return a != b && !name.empty() && name == duration_name(b);
}

// A value from a config in a checkpoint has no line either, but it has a key.
bool from_command_line(const Node::Entry& entry) {
  const Place& place = entry.value->place;
  return place.line == 0 && place.key.empty();
}

// Whether a null has removed the key from the mapping.
bool has_removed(const Node& mapping, const std::string& key) {
  return std::any_of(mapping.removed.begin(), mapping.removed.end(),
                     [&](const Node::Entry& entry) { return entry.key == key; });
}

// Returns the key of the mapping that begins with the part `depth` of the path, and the number of
// its parts. A key may contain dots, as the name of an evaluator does: the longest one counts. A
// key that is not there is one part.
std::pair<std::string, size_t> key_at(const Node& mapping, const std::vector<std::string>& parts,
                                      size_t depth) {
  const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(depth);
  for (size_t count = parts.size() - depth; count > 1; --count) {
    std::string key = join({begin, begin + static_cast<std::ptrdiff_t>(count)}, ".");
    if (mapping.entry(key) != nullptr || has_removed(mapping, key)) return {std::move(key), count};
  }
  return {parts[depth], 1};
}

// Thrown by set_value() with the reason why a path does not fit the tree.
struct NoSuchPath {
  std::string why;
};

// Returns a copy of `node` in which the value at the path `parts` is `value`; null removes a key.
// Nodes along the path are copied, because aliases may share them.
std::shared_ptr<Node> set_value(const std::shared_ptr<Node>& node,
                                const std::vector<std::string>& parts, size_t depth,
                                const std::shared_ptr<Node>& value) {
  if (depth == parts.size()) return value;
  const std::string& part = parts[depth];
  auto copy =
      node->kind == Node::Kind::null ? make_map(value->place) : std::make_shared<Node>(*node);
  if (copy->kind == Node::Kind::scalar) {
    throw NoSuchPath{fmt::format("{} is {}, not a mapping",
                                 join({parts.begin(), parts.begin() + depth}, "."),
                                 describe(*node))};
  }
  if (copy->kind == Node::Kind::list) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (error != std::errc() || end != part.data() + part.size() || index >= copy->list.size()) {
      throw NoSuchPath{fmt::format("{} is a list of {}, which has no item '{}'",
                                   join({parts.begin(), parts.begin() + depth}, "."),
                                   copy->list.size(), printable(part))};
    }
    copy->list[index] = set_value(copy->list[index], parts, depth + 1, value);
    return copy;
  }
  const auto [key, count] = key_at(*copy, parts, depth);
  if (depth + count == parts.size() && value->kind == Node::Kind::null) {
    // As in merged(), a null removes a key. If the key is absent, the null stays: the key may be
    // misspelt, and is then reported.
    const auto has_name = [&name = key](const Node::Entry& entry) { return entry.key == name; };
    const auto removed =
        std::erase_if(copy->map, has_name) + std::erase_if(copy->removed, has_name);
    (removed > 0 ? copy->removed : copy->map).push_back({key, value->place, value});
    return copy;
  }
  for (Node::Entry& entry : copy->map) {
    if (entry.key != key) continue;
    entry.value = set_value(entry.value, parts, depth + count, value);
    return copy;
  }
  const auto absent = std::make_shared<Node>();
  copy->map.push_back({key, value->place, set_value(absent, parts, depth + count, value)});
  return copy;
}

// Returns `node` without the durations of the file that the command line gives in another unit.
std::shared_ptr<Node> without_other_units(const std::shared_ptr<Node>& node) {
  auto copy = std::make_shared<Node>(*node);
  std::erase_if(copy->map, [&](const Node::Entry& entry) {
    if (from_command_line(entry)) return false;
    return std::any_of(node->map.begin(), node->map.end(), [&](const Node::Entry& given) {
      return from_command_line(given) && gives_duration(given) && other_unit(given.key, entry.key);
    });
  });
  return copy;
}

// Applies without_other_units() to the mapping that contains the last part of the path.
std::shared_ptr<Node> drop_units(const std::shared_ptr<Node>& node,
                                 const std::vector<std::string>& parts, size_t depth) {
  if (node->kind == Node::Kind::map && depth + 1 == parts.size()) return without_other_units(node);
  auto copy = std::make_shared<Node>(*node);
  if (depth + 1 >= parts.size()) return copy;
  const auto [key, count] = key_at(*node, parts, depth);
  for (Node::Entry& entry : copy->map) {
    if (entry.key == key) entry.value = drop_units(entry.value, parts, depth + count);
  }
  for (size_t i = 0; i < copy->list.size(); ++i) {
    if (std::to_string(i) == parts[depth])
      copy->list[i] = drop_units(copy->list[i], parts, depth + 1);
  }
  return copy;
}

void check_root(const std::shared_ptr<Node>& root, const std::string& name) {
  if (root == nullptr || root->kind == Node::Kind::null) {
    throw Error(Exit::usage, name, "the config is empty");
  }
  if (root->kind != Node::Kind::map) {
    throw Error(Exit::usage, root->place,
                fmt::format("expected a mapping ('key: value' lines) at the top level, got {}{}",
                            describe(*root), mapping_hint(*root)));
  }
}

// Returns the tree of `text` merged over the file that it includes. `files` are the files that are
// being included, from the outermost one.
std::shared_ptr<Node> load_tree(std::string_view text, const std::string& name,
                                std::vector<std::string>& files, std::vector<Error>& problems) {
  const auto known = static_cast<std::ptrdiff_t>(problems.size());
  auto root = parse_yaml(text, name, YamlFrom::file, problems);
  check_root(root, name);
  const Node::Entry* entry = root->entry("include");
  if (entry == nullptr) return root;
  const std::shared_ptr<Node> include = entry->value;
  std::erase_if(root->map, [](const Node::Entry& e) { return e.key == "include"; });
  if (include->kind == Node::Kind::null) return root;
  // Such as a variable of the environment that is not set: then no file has this name.
  if (std::any_of(problems.begin() + known, problems.end(),
                  [&](const Error& problem) { return problem.place() == include->place; }))
    return root;
  const auto wrong = [&](std::string_view why) {
    return Error(Exit::usage, include->place, fmt::format("include: {}", why));
  };
  if (include->kind != Node::Kind::scalar) {
    throw wrong(fmt::format("expected a file name, got {}", describe(*include)));
  }
  // The folder of a pipe, such as /dev/fd, has no configs: there it is relative to the working one.
  const std::filesystem::path folder =
      is_pipe(name) ? std::filesystem::path() : std::filesystem::path(name).parent_path();
  const std::string file = (folder / include->text).lexically_normal().string();
  if (std::find(files.begin(), files.end(), file) != files.end()) {
    throw wrong(fmt::format("'{}' includes itself", printable(file)));
  }
  if (files.size() >= limits::kConfigIncludes) {
    throw wrong(
        fmt::format("more than {} files, each including the next", limits::kConfigIncludes));
  }
  std::string base;
  try {
    base = read_file(file, limits::kConfigBytes);
  } catch (const Error& error) {
    throw wrong(fmt::format("'{}': {}", printable(file), error.message()));
  }
  files.push_back(file);
  return merged(load_tree(base, file, files, problems), root);
}

}  // namespace

std::shared_ptr<Node> merged(const std::shared_ptr<Node>& base, const std::shared_ptr<Node>& over) {
  if (base->kind != Node::Kind::map || over->kind != Node::Kind::map) return over;
  auto out = std::make_shared<Node>(*over);
  out->map.clear();
  for (const Node::Entry& entry : base->removed) {
    if (over->entry(entry.key) == nullptr) out->removed.push_back(entry);
  }
  for (const Node::Entry& entry : base->map) {
    const Node::Entry* replaced = over->entry(entry.key);
    const bool dropped =
        std::any_of(over->map.begin(), over->map.end(), [&](const Node::Entry& given) {
          return gives_duration(given) && other_unit(given.key, entry.key);
        });
    if (replaced != nullptr && replaced->value->kind == Node::Kind::null) {
      out->removed.push_back(*replaced);
    } else if (replaced != nullptr) {
      out->map.push_back({entry.key, replaced->place, merged(entry.value, replaced->value)});
    } else if (!dropped && !has_removed(*over, entry.key)) {
      out->map.push_back(entry);
    }
  }
  for (const Node::Entry& entry : over->map) {
    if (base->entry(entry.key) != nullptr) continue;
    // A null may remove a key that the included file has removed already.
    const bool removed_again =
        entry.value->kind == Node::Kind::null && has_removed(*base, entry.key);
    (removed_again ? out->removed : out->map).push_back(entry);
  }
  return out;
}

namespace {

// Whether YAML takes the end of a line of `text` for a comment. A '#' in quotes, within a word or
// in a block of text (`|`, `>`) begins none. In a text of several lines, such as the content of a
// file, a line may be a comment as a whole.
bool has_comment(std::string_view text) {
  if (text.starts_with('|') || text.starts_with('>')) return false;
  const bool has_lines = text.find('\n') != std::string_view::npos;
  char quote = '\0';    // of the string that `i` is in
  char previous = '[';  // the last character that is not a blank: a quote may follow some
  bool after_blank = true, begins_line = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (quote == '"' && c == '\\') {
        ++i;
      } else if (c == quote && quote == '\'' && text.substr(i + 1).starts_with('\'')) {
        ++i;  // a quote within the string
      } else if (c == quote) {
        quote = '\0';
      }
    } else if (c == '#' && after_blank) {
      if (!has_lines || !begins_line) return true;
      i = std::min(text.find('\n', i), text.size()) - 1;
      continue;
    } else if ((c == '\'' || c == '"') &&
               (std::string_view("[{,:").find(previous) != std::string_view::npos ||
                (previous == '-' && after_blank))) {
      quote = c;
    }
    begins_line = c == '\n' || (begins_line && (c == ' ' || c == '\t'));
    after_blank = c == ' ' || c == '\t' || c == '\n';
    if (!after_blank) previous = c;
  }
  return false;
}

// Returns the keys and indices to which `parts` leads in the tree. A key may consist of several
// parts (key_at()).
std::vector<std::string> path_in(const Node* node, const std::vector<std::string>& parts) {
  std::vector<std::string> path;
  for (size_t depth = 0; depth < parts.size();) {
    std::string key = parts[depth];
    size_t count = 1;
    if (node != nullptr && node->kind == Node::Kind::map)
      std::tie(key, count) = key_at(*node, parts, depth);
    const Node::Entry* entry = node == nullptr ? nullptr : node->entry(key);
    node = entry == nullptr ? nullptr : entry->value.get();
    path.push_back(std::move(key));
    depth += count;
  }
  return path;
}

// A value that an override has set.
struct SetValue {
  std::vector<std::string> path;
  std::string origin;
};

// Returns the origin of the first value that is below `path`; "" if there is none.
std::string set_below(const std::vector<SetValue>& values, const std::vector<std::string>& path) {
  for (const SetValue& value : values) {
    if (value.path.size() > path.size() && std::equal(path.begin(), path.end(), value.path.begin()))
      return value.origin;
  }
  return "";
}

}  // namespace

void apply_overrides(std::shared_ptr<Node>& root, const std::vector<Override>& overrides,
                     std::vector<Error>& problems) {
  std::vector<SetValue> values;
  for (const Override& override : overrides) {
    try {
      const std::vector<std::string> parts = split(override.key, '.');
      if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
        throw NoSuchPath{"a key is written as 'a.b.c', without empty parts"};
      }
      auto value = parse_yaml(override.value, override.origin, YamlFrom::command_line, problems);
      if (has_comment(override.value)) {
        problems.emplace_back(
            Exit::usage, Place{override.origin},
            "the '#' begins a comment of YAML: put the value in YAML's quotes, as in --set "
            "'KEY=\"a #b\"'");
        continue;
      }
      if (value == nullptr) value = std::make_shared<Node>();
      value->place = {override.origin, 0, 0};
      const std::vector<std::string> path = path_in(root.get(), parts);
      const std::string lost = value->kind == Node::Kind::null ? "" : set_below(values, path);
      if (!lost.empty()) {
        problems.emplace_back(Exit::usage, Place{override.origin},
                              fmt::format("would replace the value of '{}'; give this one first",
                                          printable(lost, std::string::npos)));
        continue;
      }
      root = set_value(root, parts, 0, value);
      values.push_back({path, override.origin});
    } catch (const NoSuchPath& error) {
      problems.emplace_back(Exit::usage, Place{override.origin}, error.why);
    } catch (const Error& error) {
      problems.push_back(error);
    }
  }
  for (const SetValue& value : values) {
    if (!duration_name(value.path.back()).empty()) root = drop_units(root, value.path, 0);
  }
}

namespace {

// Sets the place of each value below `node` to the key of the value. A line and a column would not
// help: the user did not write the text, which is one line of a file with other content.
void place_by_keys(Node& node, const std::string& name, const std::string& path) {
  node.place = {name, 0, 0, path};
  for (Node::Entry& entry : node.map) {
    const std::string below = join_path(path, entry.key);
    entry.place = {name, 0, 0, below};
    place_by_keys(*entry.value, name, below);
  }
  for (size_t i = 0; i < node.list.size(); ++i)
    place_by_keys(*node.list[i], name, item_path(node, path, i));
}

// Returns the config of the tree that load(problems) returns.
template <class Load>
Config make_config(const Load& load, const std::string& name,
                   const std::vector<Override>& overrides) {
  auto document = std::make_shared<Document>();
  std::vector<Error> problems;
  try {
    document->root = load(problems);
    document->root->place = {name, 0, 0};
    apply_overrides(document->root, overrides, problems);
  } catch (const Error& error) {
    problems.push_back(error);
  }
  throw_sorted(problems);
  return Config(document->root, document, "");
}

}  // namespace

Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<Override>& overrides) {
  const auto load = [&](std::vector<Error>& problems) {
    std::vector<std::string> files = {std::filesystem::path(name).lexically_normal().string()};
    return load_tree(text, name, files, problems);
  };
  return make_config(load, name, overrides);
}

Config parse_config_json(std::string_view text, const std::string& name,
                         const std::vector<Override>& overrides) {
  const auto load = [&](std::vector<Error>& problems) {
    auto root = parse_yaml(text, name, YamlFrom::json, problems);
    check_root(root, name);
    place_by_keys(*root, name, "");
    return root;
  };
  return make_config(load, name, overrides);
}

Config load_config(const std::string& file, const std::vector<Override>& overrides) {
  return parse_config(read_file_or_pipe(file, limits::kConfigBytes), file, overrides);
}

}  // namespace bv
