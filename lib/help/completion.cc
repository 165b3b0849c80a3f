#include "lib/help/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/help/catalog.h"
#include "lib/help/key_type.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

std::string joined(const std::set<std::string>& words) {
  return join({words.begin(), words.end()}, " ");
}

// Whether the table's keys can be set by path: arguments of calls cannot.
bool is_settable(const HelpTable& table) {
  return table.mapping != "pp" && (table.plugin.empty() || table.kind != nullptr);
}

bool has_no_wildcard(const std::string& path) { return path.find('*') == std::string::npos; }

// Returns the keys that can follow --set, without those below user-defined names.
std::set<std::string> settable_keys() {
  std::set<std::string> keys;
  for (const HelpTable& table : help_tables()) {
    if (!is_settable(table)) continue;
    for (const KeyText& key : table.keys) {
      for (const std::string& name : expand_braces(key.name)) {
        const std::string path = key_path(table, name);
        if (has_no_wildcard(path)) keys.insert(path);
      }
    }
  }
  return keys;
}

// Returns the words that keys accept as values: plug-in names, and the words of a type.
std::map<std::string, std::set<std::string>> values_of_keys() {
  std::map<std::string, std::set<std::string>> values;
  for (const HelpTable& table : help_tables()) {
    if (!is_settable(table)) continue;
    for (const KeyText& key : table.keys) {
      const std::vector<std::string> words = allowed_words(parse_key_type(key.type));
      const std::string path = key_path(table, key.name);
      if (has_no_wildcard(path)) values[path].insert(words.begin(), words.end());
    }
  }
  for (const PluginKind& kind : plugin_kinds()) {
    if (kind.selector.empty() || !has_no_wildcard(std::string(kind.mapping))) continue;
    std::set<std::string>& names =
        values[kind.inside ? std::string(kind.mapping) + "." + std::string(kind.selector)
                           : std::string(kind.selector)];
    for (const HelpTable* plugin : plugins_of(kind)) names.insert(plugin->plugin);
  }
  std::erase_if(values, [](const auto& entry) { return entry.second.empty(); });
  return values;
}

std::set<std::string> flags_of(const VerbText& verb) {
  std::set<std::string> flags;
  for (const FlagText& flag : verb.flags) {
    for (const std::string& name : flag.names) {
      if (name.starts_with("--")) flags.insert(name);
    }
  }
  return flags;
}

// Returns the last word of `command` if it is a part of `verb`: "scaling" of "bench scaling" for
// "bench". Otherwise returns "".
std::string word_after(const std::string& verb, const std::string& command) {
  const std::string begin = verb.empty() ? "" : verb + " ";
  if (!command.starts_with(begin)) return "";
  const std::string rest = command.substr(begin.size());
  return rest.find(' ') == std::string::npos ? rest : "";
}

std::set<std::string> next_words(const CommandLine& command_line, const std::string& verb) {
  std::set<std::string> words;
  for (const VerbText& other : command_line) words.insert(word_after(verb, other.name));
  words.erase("");
  return words;
}

// Returns the values of a flag that has a fixed set of them.
std::set<std::string> values_of(const FlagText& flag) {
  std::set<std::string> values(flag.choices.begin(), flag.choices.end());
  if (flag.names[0] == "--list") {
    for (const PluginKind& kind : plugin_kinds()) values.emplace(kind.plural);
  }
  return values;
}

// Returns a command's positional words, and "FILES" if it takes files.
std::set<std::string> words_of(const CommandLine& command_line, const VerbText& verb) {
  std::set<std::string> words = next_words(command_line, verb.name);
  if (verb.name == "help") {
    words.merge(help_words());
    words.merge(next_words(command_line, ""));
    return words;
  }
  for (const FlagText& flag : verb.flags) {
    if (flag.names[0].starts_with("-")) continue;
    const std::set<std::string> values = values_of(flag);
    words.insert(values.begin(), values.end());
    if (values.empty()) words.insert("FILES");
  }
  return words;
}

// Returns the names of all commands as a pattern of the shell's `case`: 'predict'|'bench scaling'.
std::string verb_pattern(const CommandLine& command_line) {
  std::vector<std::string> names;
  for (const VerbText& verb : command_line) {
    if (!verb.name.empty()) names.push_back("'" + verb.name + "'");
  }
  return join(names, "|");
}

// Returns the cases of _bvtrain_words() for flag values. A flag's values may differ between
// commands.
std::string flag_cases(const CommandLine& command_line) {
  std::string text;
  std::vector<std::string> sets, others;  // --set, and flags that take any value
  for (const VerbText& verb : command_line) {
    for (const FlagText& flag : verb.flags) {
      for (const std::string& name : flag.names) {
        if (!flag.takes_value || !name.starts_with("-")) continue;
        const std::string pattern = fmt::format("'{} {}'", verb.name, name);
        const std::set<std::string> values = values_of(flag);
        if (!values.empty())
          text += fmt::format("    {}) echo {}; return ;;\n", pattern, joined(values));
        else
          (name == "--set" ? sets : others).push_back(pattern);
      }
    }
  }
  text += fmt::format("    {}) echo FILES; return ;;\n", join(others, "|"));
  text += fmt::format("    {})\n      case $3 in\n", join(sets, "|"));
  for (const auto& [key, values] : values_of_keys())
    text += fmt::format("        {0}=*) for v in {1}; do echo \"{0}=$v\"; done ;;\n", key,
                        joined(values));
  text +=
      fmt::format("        *) for k in {}; do echo \"$k=\"; done ;;\n", joined(settable_keys()));
  return text + "      esac\n      return ;;\n";
}

// Returns the function that prints the words for the current position, in the language that bash
// and zsh share. It takes the command, the word before the current one and the current word, and
// prints "FILES" where a file is allowed.
std::string word_function(const CommandLine& command_line) {
  std::string text =
      "_bvtrain_words() {  # VERB PREVIOUS CURRENT\n"
      "  case \"$1 $2\" in\n" +
      flag_cases(command_line) + "  esac\n  case $3 in\n    -*) ;;\n    *)\n      case $1 in\n";
  for (const VerbText& verb : command_line)
    text += fmt::format("        '{}') echo {}; return ;;\n", verb.name,
                        joined(words_of(command_line, verb)));
  text += "      esac ;;\n  esac\n  case $1 in\n";
  for (const VerbText& verb : command_line)
    text += fmt::format("    '{}') echo {} ;;\n", verb.name, joined(flags_of(verb)));
  return text + "  esac\n}\n";
}

std::string bash_script(const CommandLine& command_line) {
  return "# Completion of bvtrain for bash. Load it with: source <(bvtrain completion bash)\n" +
         word_function(command_line) +
         fmt::format(R"(_bvtrain() {{
  local current previous verb= i words line=${{COMP_LINE:0:COMP_POINT}}
  local -a parts
  read -ra parts <<<"$line"
  [[ $line == *' ' ]] && parts+=('')
  current=${{parts[-1]}} previous=${{parts[-2]}}
  for ((i = 1; i < ${{#parts[@]}} - 1; ++i)); do
    case "${{verb:+$verb }}${{parts[i]}}" in {}) verb=${{verb:+$verb }}${{parts[i]}} ;; esac
  done
  words=$(_bvtrain_words "$verb" "$previous" "$current")
  COMPREPLY=()
  if [[ " "$words" " == *FILES* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    words=${{words//FILES/}}
  fi
  local word
  for word in $words; do
    [[ $word == "$current"* ]] || continue
    COMPREPLY+=("$word")
    [[ $word == *= ]] && compopt -o nospace 2>/dev/null
  done
  # Readline replaces what stands behind the last of its word breaks, such as '='.
  local prefix=${{current%"${{COMP_WORDS[COMP_CWORD]}}"}}
  [[ ${{COMP_WORDS[COMP_CWORD]}} == '=' ]] && prefix=$current
  [[ -z $prefix ]] || COMPREPLY=("${{COMPREPLY[@]#"$prefix"}}")
}}
complete -F _bvtrain bvtrain
)",
                     verb_pattern(command_line));
}

std::string zsh_script(const CommandLine& command_line) {
  return "#compdef bvtrain\n# Completion of bvtrain for zsh: a file _bvtrain in a folder of "
         "fpath\n" +
         word_function(command_line) +
         fmt::format(R"(_bvtrain() {{
  local verb= i
  local -a found
  for ((i = 2; i < CURRENT; ++i)); do
    case "${{verb:+$verb }}${{words[i]}}" in {}) verb=${{verb:+$verb }}${{words[i]}} ;; esac
  done
  found=(${{=$(_bvtrain_words "$verb" "${{words[CURRENT-1]}}" "${{words[CURRENT]}}")}})
  if (( ${{found[(I)FILES]}} )); then
    found=(${{found:#FILES}})
    _files
  fi
  compadd -S '' -- ${{(M)found:#*=}}
  compadd -- ${{found:#*=}}
}}
if [[ $funcstack[1] == _bvtrain ]]; then _bvtrain "$@"; else compdef _bvtrain bvtrain; fi
)",
                     verb_pattern(command_line));
}

// Quotes a string for fish.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// Returns the functions that the lines of fish_script() call: whether the cursor is in a command,
// and what may follow --set.
std::string fish_functions(const CommandLine& command_line) {
  std::string names = verb_pattern(command_line);
  std::replace(names.begin(), names.end(), '|', ' ');
  std::string text = fmt::format(R"(function __bvtrain_at  # VERB
  set -l verb
  for word in (commandline -opc)
    set -l next $verb $word
    switch "$next"
      case {}
        set verb $next
    end
  end
  test "$verb" = "$argv"
end
function __bvtrain_set
  switch (commandline -ct)
)",
                                 names);
  for (const auto& [key, values] : values_of_keys())
    text += fmt::format("    case '{0}=*'\n      printf '{0}=%s\\n' {1}\n", key, joined(values));
  return text + fmt::format("    case '*'\n      printf '%s=\\n' {}\n  end\nend\n",
                            joined(settable_keys()));
}

// `begin`: the beginning of the line, with the condition for the flag's command.
std::string fish_flag(const std::string& begin, const FlagText& flag) {
  const auto name = std::find_if(flag.names.begin(), flag.names.end(),
                                 [](const std::string& n) { return n.starts_with("--"); });
  if (name == flag.names.end()) return "";
  const std::set<std::string> values = values_of(flag);
  return fmt::format("{} -l {} -d {}{}\n", begin, name->substr(2), quoted(flag.meaning),
                     *name == "--set"   ? " -x -a '(__bvtrain_set)'"
                     : !values.empty()  ? " -x -a " + quoted(joined(values))
                     : flag.takes_value ? " -r -F"
                                        : "");
}

std::string fish_script(const CommandLine& command_line) {
  std::string text = "# Completion of bvtrain for fish: a file in ~/.config/fish/completions\n" +
                     fish_functions(command_line);
  for (const VerbText& verb : command_line) {
    const std::string begin = fmt::format("complete -c bvtrain -n '__bvtrain_at {}'", verb.name);
    std::set<std::string> words = words_of(command_line, verb);
    if (words.erase("FILES") == 0) text += begin + " -f\n";
    for (const VerbText& other : command_line) {
      const std::string word = word_after(verb.name, other.name);
      if (word.empty()) continue;
      words.erase(word);
      text += fmt::format("{} -a {} -d {}\n", begin, word, quoted(other.about));
    }
    if (!words.empty()) text += fmt::format("{} -a {}\n", begin, quoted(joined(words)));
    for (const FlagText& flag : verb.flags) text += fish_flag(begin, flag);
  }
  return text;
}

}  // namespace

std::string completion_script(const std::string& shell, const CommandLine& command_line) {
  if (shell == "bash") return bash_script(command_line);
  if (shell == "zsh") return zsh_script(command_line);
  if (shell == "fish") return fish_script(command_line);
  throw Error(Exit::usage, "completion",
              fmt::format("unknown shell '{}'; known: bash, fish, zsh", shell));
}

}  // namespace bv
