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

// Whether keys of the table can be set by their path: arguments of calls cannot.
bool is_settable(const HelpTable& table) {
  return table.mapping != "pp" && (table.plugin.empty() || table.kind != nullptr);
}

bool has_no_wildcard(const std::string& path) { return path.find('*') == std::string::npos; }

// Returns the keys that can stand after --set, without those below names of the user's choice.
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

// Returns the words that values of keys may be: names of plug-ins, and words of a type.
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

std::set<std::string> verbs_of(const CommandLine& command_line) {
  std::set<std::string> verbs;
  for (const VerbText& verb : command_line) {
    if (!verb.name.empty()) verbs.insert(split(verb.name, ' ')[0]);
  }
  return verbs;
}

// The values of flags that have a fixed set, over all commands.
std::map<std::string, std::set<std::string>> values_of_flags(const CommandLine& command_line) {
  std::map<std::string, std::set<std::string>> values;
  for (const VerbText& verb : command_line) {
    for (const FlagText& flag : verb.flags) {
      for (const std::string& name : flag.names) {
        if (!flag.choices.empty()) values[name].insert(flag.choices.begin(), flag.choices.end());
      }
    }
  }
  for (const PluginKind& kind : plugin_kinds()) values["--list"].emplace(kind.plural);
  return values;
}

// The function that prints the words for the current position, in the language that bash and zsh
// share. It takes the command, the word before the current one and the current word, and prints
// "FILES" where a file may stand.
std::string word_function(const CommandLine& command_line) {
  std::string text =
      "_bvtrain_words() {  # VERB PREVIOUS CURRENT\n"
      "  case $2 in\n"
      "    --set)\n"
      "      case $3 in\n";
  for (const auto& [key, values] : values_of_keys())
    text += fmt::format("        {0}=*) for v in {1}; do echo \"{0}=$v\"; done ;;\n", key,
                        joined(values));
  text +=
      fmt::format("        *) for k in {}; do echo \"$k=\"; done ;;\n", joined(settable_keys()));
  text += "      esac\n      return ;;\n";
  for (const auto& [flag, values] : values_of_flags(command_line))
    text += fmt::format("    {}) echo {}; return ;;\n", flag, joined(values));
  text += "  esac\n  case $3 in\n    -*) ;;\n    *)\n      case $1 in\n";
  text += fmt::format("        help) echo {}; return ;;\n", joined(help_words()));
  text += "        completion) echo bash zsh fish; return ;;\n";
  text += fmt::format("        '') echo {} FILES; return ;;\n", joined(verbs_of(command_line)));
  text += "        *) echo FILES; return ;;\n      esac ;;\n  esac\n  case $1 in\n";
  for (const VerbText& verb : command_line) {
    if (verb.name.find(' ') != std::string::npos) continue;
    text += fmt::format("    '{}') echo {} ;;\n", verb.name, joined(flags_of(verb)));
  }
  return text + "  esac\n}\n";
}

std::string bash_script(const CommandLine& command_line) {
  const std::set<std::string> verbs = verbs_of(command_line);
  return "# Completion of bvtrain for bash. Load it with: source <(bvtrain completion bash)\n" +
         word_function(command_line) +
         fmt::format(R"(_bvtrain() {{
  local current previous verb= i words line=${{COMP_LINE:0:COMP_POINT}}
  local -a parts
  read -ra parts <<<"$line"
  [[ $line == *' ' ]] && parts+=('')
  current=${{parts[-1]}} previous=${{parts[-2]}}
  for ((i = 1; i < ${{#parts[@]}} - 1; ++i)); do
    case ${{parts[i]}} in {}) verb=${{parts[i]}}; break ;; esac
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
                     join({verbs.begin(), verbs.end()}, "|"));
}

std::string zsh_script(const CommandLine& command_line) {
  const std::set<std::string> verbs = verbs_of(command_line);
  return "#compdef bvtrain\n# Completion of bvtrain for zsh: a file _bvtrain in a folder of "
         "fpath\n" +
         word_function(command_line) +
         fmt::format(R"(_bvtrain() {{
  local verb= i
  local -a found
  for ((i = 2; i < CURRENT; ++i)); do
    case ${{words[i]}} in {}) verb=${{words[i]}}; break ;; esac
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
                     join({verbs.begin(), verbs.end()}, "|"));
}

// Quotes a text for fish.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_script(const CommandLine& command_line) {
  std::string text =
      "# Completion of bvtrain for fish: a file in ~/.config/fish/completions\n"
      "function __bvtrain_set\n  switch (commandline -ct)\n";
  for (const auto& [key, values] : values_of_keys())
    text += fmt::format("    case '{0}=*'\n      printf '{0}=%s\\n' {1}\n", key, joined(values));
  text +=
      fmt::format("    case '*'\n      printf '%s=\\n' {}\n  end\nend\n", joined(settable_keys()));
  const std::string verbs = joined(verbs_of(command_line));
  for (const VerbText& verb : command_line) {
    if (verb.name.find(' ') != std::string::npos) continue;
    const std::string where = verb.name.empty() ? "not __fish_seen_subcommand_from " + verbs
                                                : "__fish_seen_subcommand_from " + verb.name;
    if (!verb.name.empty())
      text +=
          fmt::format("complete -c bvtrain -n 'not __fish_seen_subcommand_from {}' -a {} -d {}\n",
                      verbs, verb.name, quoted(verb.about));
    for (const FlagText& flag : verb.flags) {
      const auto longest = std::find_if(flag.names.begin(), flag.names.end(),
                                        [](const std::string& n) { return n.starts_with("--"); });
      if (longest == flag.names.end()) continue;
      text += fmt::format("complete -c bvtrain -n '{}' -l {} -d {}", where, longest->substr(2),
                          quoted(flag.meaning));
      std::set<std::string> choices(flag.choices.begin(), flag.choices.end());
      if (*longest == "--list") choices = values_of_flags(command_line)["--list"];
      if (*longest == "--set")
        text += " -x -a '(__bvtrain_set)'";
      else if (!choices.empty())
        text += " -x -a " + quoted(joined(choices));
      else if (flag.takes_value)
        text += " -r";
      text += "\n";
    }
  }
  text += "complete -c bvtrain -n '__fish_seen_subcommand_from help' -f -a " +
          quoted(joined(help_words())) + "\n";
  return text +
         "complete -c bvtrain -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
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
