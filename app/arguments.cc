#include "app/arguments.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "app/options.h"
#include "app/standard_output.h"
#include "app/usage_text.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/config.h"
#include "lib/config/familiar_words.h"
#include "lib/config/key_table.h"
#include "lib/util/text.h"

namespace bv {
namespace {

Override split_override(const std::string& text, const std::string& flag) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Exit::usage, flag + " " + text, "expected KEY=VALUE, e.g. --set lr=0.001");
  }
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  const std::string origin = flag + (flag.back() == '.' ? "" : " ") + text;
  if (value.empty())
    throw Error(Exit::usage, origin,
                fmt::format("the value is empty (is a shell variable unset?); write {}=null to "
                            "remove the key",
                            key));
  return {key, value, origin};
}

// An override that was given as --config.KEY=VALUE.
struct ConfigFlag {
  size_t index;  // among all overrides of the command line, --set included
  Override given;
};

// Removes --config.a.b=v and --config.a.b v, big_vision's spelling of --set a.b=v, from `args` and
// returns them. CLI11 must not see them, because it accepts only fixed names.
std::vector<ConfigFlag> take_config_flags(std::vector<std::string>& args) {
  std::vector<ConfigFlag> flags;
  std::vector<std::string> rest;
  size_t index = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].starts_with("--config.")) {
      if (args[i] == "--set" || args[i].starts_with("--set=")) ++index;
      rest.push_back(args[i]);
      continue;
    }
    std::string text = args[i].substr(9);
    if (text.find('=') == std::string::npos) {
      if (i + 1 == args.size() || args[i + 1].starts_with("--"))
        throw Error(Exit::usage, args[i], "needs a value: " + args[i] + "=VALUE");
      text += "=" + args[++i];
    }
    flags.push_back({index++, split_override(text, "--config.")});
  }
  args = rest;
  return flags;
}

using Commands = std::vector<CLI::App*>;  // bvtrain, its verb, and the subcommand of the verb

Commands commands_given(CLI::App& app) {
  Commands commands = {&app};
  while (!commands.back()->get_subcommands().empty())
    commands.push_back(commands.back()->get_subcommands()[0]);
  return commands;
}

bool has_option(const CLI::App& command, const std::string& name) {
  return command.get_option_no_throw(name) != nullptr;
}

// Throws Error(Exit::usage) for an option without its value. CLI11 would take the next argument,
// even if that is an option: --workdir=$UNSET --dry-run would train in the folder ./--dry-run.
void check_values(const CLI::App& app, const std::vector<std::string>& args) {
  const CLI::App* command = &app;
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    const size_t equals = args[i].find('=');
    const std::string name = args[i].substr(0, equals);
    for (const CLI::App* verb : command->get_subcommands([](const CLI::App*) { return true; }))
      if (verb->get_name() == args[i]) command = verb;
    const CLI::Option* option =
        name.starts_with("-") ? command->get_option_no_throw(name) : nullptr;
    if (option == nullptr || option->get_items_expected_max() == 0) continue;
    const bool apart = equals == std::string::npos;
    if (apart) ++i;
    if (apart ? i == args.size() || args[i].starts_with("--") : equals + 1 == args[i].size())
      throw Error(Exit::usage, name,
                  name == "--pp" ? "needs a value; --pp '' stands for no ops" : "needs a value");
  }
}

// Returns whether the option was given to this command on the command line, not in the environment.
bool is_typed(const CLI::App& command, const CLI::Option* option) {
  const std::vector<CLI::Option*>& order = command.parse_order();
  return std::find(order.begin(), order.end(), option) != order.end();
}

bool is_typed(const Commands& commands, const std::string& name) {
  return std::any_of(commands.begin(), commands.end(), [&](const CLI::App* command) {
    return is_typed(*command, command->get_option_no_throw(name));
  });
}

std::string full_name(const Commands& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return join(names, " ");
}

Error does_not_apply(const std::string& option, const Commands& commands) {
  return {Exit::usage, option, "does not apply to " + full_name(commands)};
}

// Returns what to write instead of a flag that is a key here or a term of other trainers; "" if it
// is neither.
std::string advice_for(const std::string& flag, const std::string& value) {
  const FamiliarWord familiar = familiar_flag(flag);
  if (familiar.ours.empty()) return familiar.advice;
  const std::vector<KeyTable>& tables = key_tables();
  const auto mapping = std::find_if(tables.begin(), tables.end(), [&](const KeyTable& table) {
    return table.place == familiar.ours;
  });
  if (mapping == tables.end()) return fmt::format("write --set {}={}", familiar.ours, value);
  const std::string_view example = mapping->text.example;
  return example.starts_with('{') ? fmt::format("write --set '{}={}'", familiar.ours, example)
                                  : fmt::format("see `bvtrain help {}`", familiar.ours);
}

std::string unknown_option_message(const CLI::App& command, const std::string& name,
                                   const std::string& value) {
  std::string dashes = name;
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  if (has_option(command, dashes))
    return fmt::format("unknown option '{}' (did you mean '{}'?)", name, dashes);
  const bool trains = has_option(command, "--synthetic");  // the others ignore training keys
  if (const std::string advice = trains ? advice_for(name, value) : ""; !advice.empty())
    return fmt::format("unknown option '{}': {}", name, advice);
  if (has_option(command, "--best") && (name == "--ckpt" || name == "--checkpoint")) {
    return fmt::format(
        "unknown option '{}': give the folder of the checkpoint as --workdir, such "
        "as out/ckpt/step-100, or --best",
        name);
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) known.push_back(option->get_name());
  const std::string near = nearest(name, known);
  return fmt::format("unknown option '{}'{}; see --help", name,
                     near.empty() ? "" : " (did you mean '" + near + "'?)");
}

// Returns whether the word is "--name" or "-x", not a number or the "-" of standard input.
bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '.' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

// Returns the error for "--set lr 3", "--set lr = 3" or "--set lr: 3", where `word` follows the
// key; nullopt if that is not the fault.
std::optional<Error> set_without_equals(const std::vector<std::string>& args,
                                        const std::string& word) {
  for (size_t i = 0; i + 2 < args.size(); ++i) {
    if (args[i] != "--set" || args[i + 2] != word) continue;
    const std::string key = args[i + 1].substr(0, args[i + 1].find_last_not_of("=:") + 1);
    if (key.empty() || key.find('=') != std::string::npos) continue;
    std::string given = "--set " + args[i + 1], value;
    for (size_t at = i + 2; at < args.size() && value.empty(); ++at) {
      given += " " + args[at];
      value = args[at].substr(std::min(args[at].find_first_not_of("=:"), args[at].size()));
    }
    return Error(Exit::usage, given,
                 fmt::format("write --set {}={}", key, value.empty() ? "VALUE" : value));
  }
  return std::nullopt;
}

// Returns the error for a command line that CLI11 rejects. It names the unknown word, if there is
// one.
Error usage_error(const Commands& commands, const CLI::ParseError& error,
                  const std::vector<std::string>& args) {
  const CLI::App& command = *commands.back();
  const std::vector<std::string> left = command.remaining();
  std::vector<std::string> verbs;
  for (const CLI::App* verb : command.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  if (!verbs.empty() && !left.empty() && !left[0].starts_with("-")) {
    return set_without_equals(args, left[0])
        .value_or(Error(Exit::usage, full_name(commands),
                        unknown_command_text(left[0], verbs, commands.size() == 1)));
  }
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    const size_t equals = args[i].find('=');
    const std::string name = args[i].substr(0, equals);
    if (!is_option(name) || has_option(command, name)) continue;
    if (std::any_of(commands.begin(), commands.end(),
                    [&](const CLI::App* outer) { return has_option(*outer, name); }))
      return does_not_apply(name, commands);
    const bool apart = equals == std::string::npos && i + 1 < args.size() && args[i + 1][0] != '-';
    const std::string value = apart                         ? args[i + 1]
                              : equals == std::string::npos ? "VALUE"
                                                            : args[i].substr(equals + 1);
    return {Exit::usage, "bvtrain", unknown_option_message(command, name, value)};
  }
  return {Exit::usage, "bvtrain", usage_text(error.what(), full_name(commands))};
}

// The environment variable of each option. They are hidden from CLI11 while it parses: it would
// read those of all commands, so a bad value for one command would break another.
using Variables = std::map<CLI::Option*, std::string>;

void take_variables(CLI::App& app, Variables& variables) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_envname().empty()) variables[option] = option->get_envname();
    option->envname("");
  }
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    take_variables(*verb, variables);
}

// Assigns the value of an environment variable, if it is set and not empty.
void assign_variable(CLI::Option& option, const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr || *value == '\0') return;
  try {
    option.add_result(value);
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    const bool flag = option.get_items_expected_max() == 0;
    throw Error(Exit::usage, fmt::format("${}={}", variable, value),
                flag ? option.get_name() + ": expected true or false"
                     : usage_text(error.what(), "bvtrain"));
  }
}

// An empty value is usually an unset variable of a shell: `--workdir "$OUT"` would save nothing.
// Without ops, --pp has a meaning.
void require_value(const CLI::Option& option, const std::string& name) {
  const std::vector<std::string>& values = option.results();
  if (name != "--pp" && std::find(values.begin(), values.end(), "") != values.end())
    throw Error(Exit::usage, name, "the value is empty (is a shell variable unset?)");
}

// Assigns the values of the options: first those from the environment, then those that were typed.
// CLI11 has already assigned the typed ones, but also those of outer commands. Options before a
// verb must be options of the verb, too.
void assign_values(const Commands& commands, const Variables& variables) {
  CLI::App& command = *commands.back();
  // Each of these selects the model. If one was typed, the environment's others are ignored.
  const std::set<std::string> models = {"--config", "--workdir", "--weights"};
  const std::string& verb = command.get_name();
  const bool names_model = (verb == "predict" || verb == "export") &&
                           std::any_of(models.begin(), models.end(), [&](const std::string& name) {
                             return is_typed(commands, name);
                           });
  for (CLI::Option* option : command.get_options()) {
    const auto variable = variables.find(option);
    if (variable == variables.end() || is_typed(commands, option->get_name())) continue;
    if (names_model && models.contains(option->get_name())) continue;
    assign_variable(*option, variable->second);
  }
  std::set<std::string> seen;
  for (CLI::App* app : commands) {
    for (CLI::Option* option : app->get_options()) {
      if (!is_typed(*app, option)) continue;
      const std::string name = option->get_name();
      if (!has_option(command, name)) throw does_not_apply(name, commands);
      const bool repeatable = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
      if (!seen.insert(name).second && !repeatable)
        throw Error(Exit::usage, name, "is given twice");
      require_value(*option, name);
      option->run_callback();
    }
  }
}

// --dry-run, --explain, --list and --version each print something else.
void check_one_action(const CLI::App& app) {
  std::string first;
  for (const char* flag : {"--dry-run", "--explain", "--list", "--version"}) {
    if (app.count(flag) == 0) continue;
    if (!first.empty())
      throw Error(Exit::usage, "bvtrain", fmt::format("give either {} or {}", first, flag));
    first = flag;
  }
}

// Adds the flags that help was requested for, as in "bvtrain help --workdir".
void read_help(const CLI::App& app, Arguments::Help& help) {
  std::vector<std::string> flags = app.remaining(/*recurse=*/true);
  std::erase(flags, "--");
  help.words.insert(help.words.end(), flags.begin(), flags.end());
  if (help.man + !help.reference.empty() + !help.words.empty() > 1)
    throw Error(Exit::usage, "bvtrain help", "give only one of --man, --reference and words");
}

DryRun read_dry_run(const std::string& text) {
  if (text == "full") return DryRun::full;
  if (text == "quick" || text == "true") return DryRun::quick;
  throw Error(Exit::usage, "--dry-run=" + text, "expected --dry-run or --dry-run=full");
}

// Sets the values that depend on several options.
void read_values(Options& options, const Commands& commands,
                 const std::vector<ConfigFlag>& config_flags, Arguments& out) {
  const CLI::App& command = *commands.back();
  for (const auto& [verb, app] : options.verbs) {
    if (app->parsed()) out.verb = verb;
  }
  if (commands.size() > 2) out.part = command.get_name();
  if (out.verb == Arguments::Verb::help) read_help(options.app, out.help);
  if (out.best) {
    if (out.workdir.empty()) throw Error(Exit::usage, "--best", "needs a --workdir");
    if (names_best(out.workdir))
      throw Error(Exit::usage, "--best", "--workdir names a best checkpoint already");
    out.workdir += std::string(":") + kBestName;
  }
  for (const std::string& text : options.sets)
    out.overrides.push_back(split_override(text, "--set"));
  // Overrides keep the order of the command line, because the last value of a key counts.
  for (const auto& [index, given] : config_flags) {
    const size_t at = std::min(index, out.overrides.size());
    out.overrides.insert(out.overrides.begin() + static_cast<long>(at), given);
  }
  if (!config_flags.empty() && !has_option(command, "--set"))
    throw does_not_apply(config_flags[0].given.origin, commands);
  if (options.dry->count() > 0) out.dry_run = read_dry_run(options.dry_run);
  const bool trains = out.verb == Arguments::Verb::train;
  if (out.json && trains && out.list.empty() && options.dry->count() == 0)
    throw Error(Exit::usage, "--json", "needs --list or --dry-run here");
  // Other empty variables count as unset.
  if (out.trains() && out.workdir.empty() && std::getenv("BVTRAIN_WORKDIR") != nullptr) {
    throw Error(Exit::usage, "$BVTRAIN_WORKDIR",
                "is empty, so nothing would be saved; set it to a folder or unset it");
  }
}

}  // namespace

bool parse_arguments(int argc, char** argv, Arguments& out) {
  const std::vector<std::string> all(argv, argv + argc);
  std::vector<std::string> args(all.begin() + 1, all.end());
  const std::vector<ConfigFlag> config_flags = take_config_flags(args);
  Options options(out);
  Variables variables;
  take_variables(options.app, variables);
  check_values(options.app, args);
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());  // CLI11 pops from the back
    options.app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    for (const auto& [option, variable] : variables) option->envname(variable);
    print(options.app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw usage_error(commands_given(options.app), error, args);
  }
  out = Arguments();
  out.argv = all;
  options.sets.clear();
  const Commands commands = commands_given(options.app);
  assign_values(commands, variables);
  check_one_action(options.app);
  read_values(options, commands, config_flags, out);
  return true;
}

namespace {

// Returns the values that a CLI11 validator allows: its type is then "TEXT:{npz,onnx}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return split(type.substr(open + 1, close - open - 1), ',');
}

FlagText flag_text(const CLI::Option& option) {
  FlagText flag;
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  if (option.get_positional()) flag.names.insert(flag.names.begin(), option.get_name(true, false));
  flag.meaning = option.get_description();
  flag.variable = option.get_envname();
  flag.choices = choices_of(option);
  flag.takes_value = option.get_items_expected_max() > 0;
  return flag;
}

void add_verb(const CLI::App& app, const std::string& name, CommandLine& line) {
  VerbText verb{name, app.get_description(), {}};
  for (const CLI::Option* option : app.get_options()) verb.flags.push_back(flag_text(*option));
  line.push_back(std::move(verb));
  for (const CLI::App* part : app.get_subcommands([](const CLI::App*) { return true; }))
    add_verb(*part, (name.empty() ? "" : name + " ") + part->get_name(), line);
}

}  // namespace

CommandLine command_line() {
  Arguments unused;
  Options options(unused);
  CommandLine line;
  add_verb(options.app, "", line);
  return line;
}

}  // namespace bv
