#include "lib/help/help_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>

#include "lib/config/familiar_words.h"
#include "lib/config/key_table.h"
#include "lib/help/catalog.h"
#include "lib/help/exit_codes.h"
#include "lib/help/wrap.h"
#include "lib/util/error.h"
#include "lib/util/parse_count.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kMostInFull = 4;  // more keys with the same name are listed, one per line

// A key, with all places whose tables describe it identically.
struct FoundKey {
  const KeyText* key;
  const HelpTable* table;  // the first of them
  std::string path;
  std::vector<std::string> plugins;
};

std::string field(std::string_view label, const std::string& text) {
  return wrap(text, fmt::format("  {:<11} ", label), std::string(14, ' ')) + "\n";
}

// Returns whether `asked` is `path` or its end. A "*" in the path matches any name.
bool matches(const std::string& path, const std::string& asked) {
  const std::vector<std::string> ours = split(path, '.'), theirs = split(asked, '.');
  if (theirs.size() > ours.size()) return false;
  const size_t offset = ours.size() - theirs.size();
  for (size_t i = 0; i < theirs.size(); ++i) {
    if (ours[offset + i] != "*" && ours[offset + i] != theirs[i]) return false;
  }
  return theirs.back() == ours.back();
}

bool asks_for(const HelpTable& table, const KeyText& key, const std::string& word) {
  if (word == key.name) return true;
  for (const std::string& name : expand_braces(key.name)) {
    if (matches(key_path(table, name), word)) return true;
    if (!table.plugin.empty() && word == table.plugin + "." + name) return true;
  }
  return false;
}

std::vector<FoundKey> find_keys(const std::string& word) {
  std::vector<FoundKey> found;
  for (const HelpTable& table : help_tables()) {
    for (const KeyText& key : table.keys) {
      if (!asks_for(table, key, word)) continue;
      const std::string path = key_path(table, key.name);
      const auto same = std::find_if(found.begin(), found.end(), [&](const FoundKey& other) {
        return other.key->meaning == key.meaning && other.key->fallback == key.fallback &&
               other.key->type == key.type && other.table->mapping == table.mapping;
      });
      const bool is_new = same == found.end();
      FoundKey& entry = is_new ? found.emplace_back(FoundKey{&key, &table, path, {}}) : *same;
      if (!table.plugin.empty()) entry.plugins.push_back(table.plugin);
      if (big_vision_name(*entry.table, key).empty()) entry.table = &table;  // it may have a name
    }
  }
  return found;
}

// Returns the path under which the tables describe the key at `path`: "input.data.split" for
// "evals.val.data.split".
std::string described_path(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : table_place(path.substr(0, dot)) + path.substr(dot);
}

// Returns "a key of the model vit", "an argument of the ops resize and crop".
std::string belongs_to(const FoundKey& found) {
  const HelpTable& table = *found.table;
  if (table.kind == nullptr)
    return table.place.empty() ? "a key at the top level" : "a key of '" + table.place + "'";
  return fmt::format("{} of the {}{} {}", table.mapping == "pp" ? "an argument" : "a key",
                     table.kind->kind, found.plugins.size() == 1 ? "" : "s",
                     join(found.plugins, ", "));
}

std::string describe_key(const FoundKey& found) {
  const KeyText& key = *found.key;
  std::string text = fmt::format("{}: {}\n\n", found.path, belongs_to(found));
  text += wrap(std::string(key.meaning), "  ", "  ") + "\n\n";
  text += field("Type", type_of_key(*found.table, key));
  text += field("Default", default_in_words(*found.table, key));
  if (!key.example.empty()) text += field("Example", example_in_words(*found.table, key));
  const std::string theirs = big_vision_name(*found.table, key);
  text += field("big_vision", theirs.empty() ? "has no such key" : theirs);
  return text;
}

std::string describe_keys(const std::vector<FoundKey>& found) {
  std::string text;
  if (found.size() <= kMostInFull) {
    for (const FoundKey& key : found) text += (text.empty() ? "" : "\n") + describe_key(key);
    return text;
  }
  for (const FoundKey& key : found) {
    text += fmt::format("{}: {}\n", key.path, belongs_to(key));
    text += wrap(first_sentence(key.key->meaning), "    ", "    ") + "\n";
  }
  const FoundKey& one = found.back();
  return text + fmt::format("\nFor one of them: bvtrain help {}.{}\n",
                            one.plugins.empty() ? one.table->place : one.plugins[0],
                            expand_braces(one.key->name)[0]);
}

std::string describe_plugin(const HelpTable& table) {
  std::string text = fmt::format(
      "{}: {} {}\n\n", table.plugin,
      std::string_view("aeio").find(table.kind->kind[0]) != std::string_view::npos ? "an" : "a",
      table.kind->kind);
  text += wrap(std::string(table.text.about), "  ", "  ") + "\n\n";
  if (!table.kind->selector.empty())
    text +=
        field("Chosen by", fmt::format("{}: {}",
                                       table.kind->inside
                                           ? table.mapping + "." + std::string(table.kind->selector)
                                           : std::string(table.kind->selector),
                                       table.plugin));
  if (!table.text.example.empty()) text += field("Example", std::string(table.text.example));
  if (!table.text.big_vision.empty())
    text += field("big_vision", std::string(table.text.big_vision));
  for (const KeyText& key : table.keys) {
    text +=
        fmt::format("\n  {} ({}; {}{})\n", key.name, type_of_key(table, key),
                    key.fallback == "required" || key.fallback.starts_with("= ") ? "" : "default ",
                    default_in_words(table, key));
    text += wrap(std::string(key.meaning), "      ", "      ") + "\n";
  }
  return text;
}

std::string describe_mapping(const HelpTable& table) {
  std::string text = fmt::format(
      "{}: {}\n\n", table.place,
      table.plugin.empty() ? "a mapping of the config" : "a call, with these arguments");
  if (!table.text.about.empty()) text += wrap(std::string(table.text.about), "  ", "  ") + "\n\n";
  for (const KeyText& key : table.keys)
    text += wrap(first_sentence(key.meaning), fmt::format("  {:<24} ", key.name),
                 std::string(27, ' ')) +
            "\n";
  return text;
}

std::string describe_kind(const PluginKind& kind) {
  std::string text = fmt::format("{}\n\n", kind.plural);
  for (const HelpTable* table : plugins_of(kind))
    text += wrap(first_sentence(table->text.about), fmt::format("  {:<24} ", table->plugin),
                 std::string(27, ' ')) +
            "\n";
  return text + fmt::format("\nFor one of them: bvtrain help NAME\n");
}

std::string describe_exit_code(const ExitText& code) {
  return fmt::format("{}: the exit code for '{}'\n\n{}\n", static_cast<int>(code.code), code.name,
                     wrap(std::string(code.meaning), "  ", "  "));
}

// Describes 128 + n, the exit code of a process that the signal n has killed; "" for other words.
std::string describe_signal_code(const std::string& word) {
  constexpr int kBase = 128, kLast = 64;
  const auto code = parse_count<int>(word);
  if (!code || *code <= kBase || *code > kBase + kLast) return "";
  const int signal = *code - kBase;
  const char* reason = ::strsignal(signal);
  std::string meaning = fmt::format("A process of the run was killed by signal {} ({}).", signal,
                                    reason == nullptr ? "unknown" : reason);
  if (signal == SIGKILL)
    meaning += " Often the system ran out of memory: lower input.batch_size or input.threads.";
  return fmt::format("{}: the exit code for 'killed by a signal'\n\n{}\n", word,
                     wrap(meaning, "  ", "  "));
}

std::string describe_flag(const FlagText& flag, const VerbText& verb) {
  std::string text =
      fmt::format("{}: {}\n\n{}\n", join(flag.names, ", "),
                  verb.name.empty() ? "a flag of bvtrain" : "a flag of bvtrain " + verb.name,
                  wrap(flag.meaning, "  ", "  "));
  if (!flag.choices.empty()) text += "\n" + field("Values", join(flag.choices, ", "));
  if (!flag.variable.empty()) text += "\n" + field("Variable", flag.variable);
  return text;
}

// Returns the descriptions of the command and the flags with this name.
std::string describe_commands_and_flags(const std::string& name, const CommandLine& command_line) {
  std::string text;
  for (const VerbText& verb : command_line) {
    if (!verb.name.empty() && verb.name == name)
      text += fmt::format("{}: a command\n\n{}\n\n  All of its flags: bvtrain {} --help\n",
                          verb.name, wrap(verb.about, "  ", "  "), verb.name);
    for (const FlagText& flag : verb.flags) {
      if (std::find(flag.names.begin(), flag.names.end(), name) != flag.names.end() &&
          name.starts_with("-"))
        text += (text.empty() ? "" : "\n") + describe_flag(flag, verb);
    }
  }
  return text;
}

// Returns the counterpart of a word that other trainers use.
std::string familiar(const std::string& word) {
  const size_t dot = word.rfind('.');
  const std::string path = dot == std::string::npos ? "" : word.substr(0, dot);
  const std::string name = dot == std::string::npos ? word : word.substr(dot + 1);
  FamiliarWord found = name.starts_with("-") ? familiar_flag(name) : familiar_key(path, name);
  for (const char* below : {"input", "optax", "schedule", "evals.val", "model"}) {
    if (path.empty() && found.advice.empty() && found.ours.empty())
      found = familiar_key(below, name);
  }
  if (found.ours.empty() && found.advice.empty()) return "";
  std::string text = fmt::format("{}: not a bvtrain term\n\n", word);
  if (!found.advice.empty()) text += wrap(found.advice, "  ", "  ") + "\n";
  if (found.ours.empty()) return text;
  if (found.advice.empty()) text += fmt::format("  bvtrain calls it '{}'.\n", found.ours);
  const std::vector<FoundKey> keys = find_keys(found.ours);
  return keys.empty() ? text : text + "\n" + describe_keys(keys);
}

// Whether a key's description or type names `word` as a value: `huber`, `loss: huber`, 'huber'.
bool has_value(const KeyText& key, const std::string& word) {
  const auto in = [](std::string_view text, const std::string& part) {
    return text.find(part) != std::string_view::npos;
  };
  return in(key.meaning, "`" + word + "`") || in(key.meaning, ": " + word + "`") ||
         in(key.type, "'" + word + "'");
}

// Returns the keys that have `word` as a value.
std::string describe_value(const std::string& word) {
  if (word.empty()) return "";  // of "val/"
  std::string text;
  for (const HelpTable& table : help_tables()) {
    for (const KeyText& key : table.keys) {
      if (!has_value(key, word)) continue;
      const std::string line =
          wrap(first_sentence(key.meaning), fmt::format("  {:<24} ", key_path(table, key.name)),
               std::string(27, ' ')) +
          "\n";
      if (text.find(line) == std::string::npos) text += line;  // plug-ins may share a key
    }
  }
  if (text.empty()) return "";
  return fmt::format(
      "{}: a value of these keys, or named in their help\n\n{}\n"
      "For one of them: bvtrain help KEY\n",
      word, text);
}

// Returns what evaluators say about the metric `word`, which may follow an evaluator's name:
// "val/prec@1".
std::string describe_metric(const std::string& word) {
  const std::string name = "`" + word.substr(word.rfind('/') + 1) + "`";
  std::string text;
  for (const HelpTable& table : help_tables()) {
    if (table.kind == nullptr || table.mapping != "evals.*") continue;
    std::string_view rest = table.text.about;
    while (!rest.empty()) {
      const std::string sentence = first_sentence(rest);
      rest.remove_prefix(std::min(rest.size(), sentence.size() + 1));
      if (sentence.find(name) == std::string::npos) continue;
      text += wrap(sentence, fmt::format("  {:<24} ", table.plugin), std::string(27, ' ')) + "\n";
    }
  }
  if (text.empty()) return "";
  return fmt::format("{}: a metric of these evaluators\n\n{}", word, text);
}

std::vector<std::string> all_words(const CommandLine& command_line) {
  std::set<std::string> words = help_words();
  for (const VerbText& verb : command_line) {
    if (!verb.name.empty()) words.insert(verb.name);
    for (const FlagText& flag : verb.flags) {
      for (const std::string& name : flag.names) {
        if (name.starts_with("-")) words.insert(name);
      }
    }
  }
  return {words.begin(), words.end()};
}

void append(std::string& text, const std::string& part) {
  if (!part.empty()) text += (text.empty() ? "" : "\n") + part;
}

}  // namespace

std::string help_on(const std::string& word, const CommandLine& command_line) {
  std::string text;
  for (const PluginKind& kind : plugin_kinds()) {
    // "task" is also a key: its own description says more.
    if (word == kind.plural || (word == kind.kind && find_keys(word).empty()))
      append(text, describe_kind(kind));
  }
  for (const HelpTable& table : help_tables()) {
    if (!table.plugin.empty() && (word == table.plugin || word == table.place))
      append(text, table.kind != nullptr ? describe_plugin(table) : describe_mapping(table));
  }
  std::vector<FoundKey> keys = find_keys(word);
  if (keys.empty()) keys = find_keys(described_path(word));
  if (!keys.empty()) append(text, describe_keys(keys));
  if (const HelpTable* table = find_help_table(word); table != nullptr && table->kind == nullptr)
    append(text, describe_mapping(*table));
  for (const ExitText& code : exit_codes()) {
    if (word == std::to_string(static_cast<int>(code.code)) || word == code.name)
      append(text, describe_exit_code(code));
  }
  if (word == "exit" || word == "exit codes") {
    for (const ExitText& code : exit_codes()) append(text, describe_exit_code(code));
  }
  append(text, describe_commands_and_flags(word, command_line));
  if (text.empty()) text = describe_signal_code(word);
  if (text.empty()) text = familiar(word);
  if (text.empty()) text = describe_metric(word);
  if (text.empty()) text = describe_value(word.substr(word.rfind('/') + 1));
  if (!text.empty()) return text;
  const std::string near = nearest(word, all_words(command_line));
  throw Error(Exit::usage, "help",
              fmt::format("no help on '{}'{}; see bvtrain help", word,
                          near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

std::string help_overview(const CommandLine& command_line) {
  std::string text = "bvtrain help WORD explains one of these:\n\n";
  text += field("keys", "config keys: lr, input.batch_size, evals.*.pp_fn, model.depth");
  std::vector<std::string> plurals;
  for (const PluginKind& kind : plugin_kinds()) plurals.emplace_back(kind.plural);
  text +=
      field("names", "values such as vit, resize or cosine; all of a kind: " + join(plurals, ", "));
  std::vector<std::string> verbs;
  for (const VerbText& verb : command_line) {
    if (!verb.name.empty()) verbs.push_back(verb.name);
  }
  text += field("commands", join(verbs, ", "));
  text += field("flags", "--set, --workdir, --devices, ...");
  std::vector<std::string> codes;
  for (const ExitText& code : exit_codes())
    codes.push_back(std::to_string(static_cast<int>(code.code)));
  text += field("exit codes", join(codes, ", "));
  text += field("other words", "those of other trainers: epochs, num_workers, scheduler, ...");
  text += "\nThe keys at the top level of a config:\n\n";
  if (const HelpTable* top = find_help_table("")) {
    for (const KeyText& key : top->keys)
      text += wrap(first_sentence(key.meaning), fmt::format("  {:<24} ", key.name),
                   std::string(27, ' ')) +
              "\n";
  }
  return text;
}

}  // namespace bv
