#include "lib/help/reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/help/catalog.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Escapes `text` for a cell of a Markdown table. Inside backticks, a backslash before '<' would be
// visible. One before '|' is not, because it is removed when the row is split into cells.
std::string cell(std::string_view text) {
  std::string escaped;
  bool in_code = false;
  for (const char c : text) {
    if (c == '`') in_code = !in_code;
    if (c == '|' || (c == '<' && !in_code)) escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string code(std::string_view text) {
  return text.empty() ? "" : cell("`" + std::string(text) + "`");
}

std::string default_cell(const HelpTable& table, const KeyText& key) {
  const std::string text = default_in_words(table, key);
  return has_literal_default(key) ? code(text) : cell(text);
}

std::string meaning_cell(const HelpTable& table, const KeyText& key) {
  std::string text = cell(key.meaning);
  if (!key.example.empty()) text += " Example: " + code(example_in_words(table, key));
  const std::string theirs = big_vision_name(table, key);
  if (!theirs.empty() && theirs != key.name) text += " big_vision: " + code(theirs) + ".";
  return text;
}

std::string key_rows(const HelpTable& table) {
  if (table.keys.empty()) return "";
  std::string text = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const KeyText& key : table.keys)
    text += fmt::format("| {} | {} | {} | {} |\n", code(key.name), cell(type_of_key(table, key)),
                        default_cell(table, key), meaning_cell(table, key));
  return text + "\n";
}

// The call of an op with its arguments: "resize(size, method, antialias)".
std::string call_of(const HelpTable& op) {
  std::vector<std::string> names;
  for (const KeyText& key : op.keys)
    names.push_back(std::string(key.name) +
                    (has_literal_default(key) ? "=" + default_in_words(op, key) : ""));
  return op.plugin + "(" + join(names, ", ") + ")";
}

bool same_key(const KeyText& a, const KeyText& b) {
  return a.name == b.name && a.type == b.type && a.fallback == b.fallback && a.meaning == b.meaning;
}

// If `table` describes another name of a plug-in, returns the table of that plug-in; otherwise
// null. Such names have the big_vision module before a dot: "archive.randaug".
const HelpTable* other_name_of(const HelpTable& table) {
  if (table.plugin.find('.') == std::string::npos) return nullptr;
  for (const HelpTable* other : plugins_of(*table.kind)) {
    if (other->plugin.find('.') == std::string::npos && other->text.about == table.text.about &&
        std::equal(table.keys.begin(), table.keys.end(), other->keys.begin(), other->keys.end(),
                   same_key))
      return other;
  }
  return nullptr;
}

// Returns the anchor of a heading, which has no dots or colons.
std::string anchor(std::string heading) {
  std::erase_if(heading, [](char c) { return c == '.' || c == ':'; });
  return heading;
}

std::string plugin_section(const HelpTable& table) {
  if (const HelpTable* other = other_name_of(table))
    return fmt::format("## {}\n\nThe same as [{}](#{}).\n\n", table.plugin, other->plugin,
                       anchor(other->plugin));
  std::string text = fmt::format("## {}\n\n{}\n\n", table.plugin, table.text.about);
  if (table.mapping == "pp") text += "`" + call_of(table) + "`\n\n";
  if (!table.text.example.empty()) {
    text += table.text.example.find('\n') == std::string_view::npos
                ? fmt::format("Example: `{}`\n\n", table.text.example)
                : fmt::format("```yaml\n{}\n```\n\n", table.text.example);
  }
  if (!table.text.big_vision.empty())
    text += fmt::format("In big_vision: `{}`.\n\n", table.text.big_vision);
  return text + key_rows(table);
}

constexpr std::string_view kAboutOps =
    "Ops are the steps of `input.pp` and of an evaluator's `pp_fn`, separated by `|` and applied "
    "left to right.\n\n"
    "An op is called like a Python function: `flip_lr`, `resize(224)` or `resize(size=224)`. "
    "Strings are quoted\nand cannot contain `|`; other values are numbers, lists, True, False and "
    "None. The name num_classes is the value of\nthat key. In YAML, quote the whole string if it "
    "contains `: ` or ` #`.\n\n"
    "An *example* is one item of the data, such as an image with its label. Its arrays have names "
    "and are called\n*features*. Images are (height, width, channels); texts and the bytes of "
    "files are one-dimensional uint8 arrays.\n\n";

std::string selector_line(const PluginKind& kind) {
  if (kind.selector.empty()) return std::string(kAboutOps);
  const std::string key =
      kind.inside ? fmt::format("{}.{}", kind.mapping, kind.selector) : std::string(kind.selector);
  std::string text = fmt::format("The key `{}` names one of these.", key);
  if (kind.mapping != "loss")
    text += fmt::format(" Its keys are in `{}`.", kind.mapping);
  else
    text += " The losses of `task: regress` are described [there](tasks.md#regress).";
  return text + "\n\n";
}

std::string title_of(const PluginKind& kind) {
  std::string title(kind.mapping == "evals.*" ? "evaluators" : kind.plural);
  title[0] = static_cast<char>(std::toupper(title[0]));
  return title;
}

constexpr std::string_view kNote =
    "<!-- Generated by scripts/dev.sh docs from the key tables in the code. -->\n";
static_assert(kNote.starts_with(kReferenceMark));

std::string kind_page(const PluginKind& kind) {
  std::string text = fmt::format("{}# {}\n\n{}", kNote, title_of(kind), selector_line(kind));
  if (const HelpTable* common = find_help_table(kind.mapping)) {
    if (!common->text.about.empty()) text += std::string(common->text.about) + "\n\n";
    if (!common->keys.empty()) text += fmt::format("Common keys:\n\n{}", key_rows(*common));
  }
  for (const HelpTable* plugin : plugins_of(kind)) text += plugin_section(*plugin);
  text.pop_back();
  return text;
}

bool has_page(const std::string& mapping) {
  for (const PluginKind& kind : plugin_kinds()) {
    if (kind.mapping == mapping) return true;
  }
  return false;
}

std::string config_page() {
  std::string text = fmt::format("{}# Keys of a config\n\n", kNote);
  for (const HelpTable& table : help_tables()) {
    if (table.kind != nullptr || has_page(table.mapping)) continue;
    text += table.place.empty() ? "## Top level\n\n" : fmt::format("## {}\n\n", table.place);
    if (!table.text.about.empty()) text += std::string(table.text.about) + "\n\n";
    text += key_rows(table);
  }
  text.pop_back();
  return text;
}

std::string index_page() {
  std::string text = fmt::format("{}# Reference\n\n", kNote);
  text +=
      "`bvtrain help WORD` prints the same texts. `bvtrain schema` prints them as a JSON Schema, "
      "with which\neditors complete and check configs.\n\n"
      "- [Keys of a config](config.md)\n";
  for (const PluginKind& kind : plugin_kinds()) {
    std::vector<std::string> names;
    for (const HelpTable* plugin : plugins_of(kind))
      names.push_back(
          fmt::format("[{}]({}.md#{})", plugin->plugin, kind.plural, anchor(plugin->plugin)));
    text += fmt::format("- [{}]({}.md): {}\n", title_of(kind), kind.plural, join(names, ", "));
  }
  return text;
}

}  // namespace

std::vector<ReferencePage> reference_pages() {
  std::vector<ReferencePage> pages = {{"README.md", index_page()}, {"config.md", config_page()}};
  for (const PluginKind& kind : plugin_kinds())
    pages.push_back({std::string(kind.plural) + ".md", kind_page(kind)});
  return pages;
}

}  // namespace bv
