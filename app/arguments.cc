#include "app/arguments.h"

#include <algorithm>

#include "app/options.h"
#include "app/standard_output.h"
#include "lib/config/familiar_words.h"
#include "lib/config/load_config.h"
#include "lib/util/text.h"

namespace bv {
namespace {

Override split_override(const std::string& text, const std::string& flag) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Exit::usage, flag + " " + text, "expected KEY=VALUE, e.g. --set lr=0.001");
  }
  return {text.substr(0, equals), text.substr(equals + 1),
          flag + (flag.back() == '.' ? "" : " ") + text};
}

// Removes --config.a.b=v and --config.a.b v, big_vision's spelling of --set a.b=v, from `args` and
// returns them. CLI11 must not see them, because it only knows fixed names.
std::vector<Override> take_config_overrides(std::vector<std::string>& args) {
  std::vector<Override> overrides;
  std::vector<std::string> rest;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].starts_with("--config.")) {
      rest.push_back(args[i]);
      continue;
    }
    std::string text = args[i].substr(9);
    if (text.find('=') == std::string::npos) {
      if (i + 1 == args.size())
        throw Error(Exit::usage, args[i], "needs a value: " + args[i] + "=VALUE");
      text += "=" + args[++i];
    }
    overrides.push_back(split_override(text, "--config."));
  }
  args = rest;
  return overrides;
}

// Returns whether the command line has this option. (It may also come from the environment.)
bool typed(const std::vector<std::string>& args, const std::string& option) {
  return std::any_of(args.begin(), args.end(), [&](const std::string& arg) {
    return arg == option || arg.starts_with(option + "=");
  });
}

// Returns whether the program, or a subcommand that was given, has this option.
bool knows(const CLI::App& app, const std::string& name) {
  if (app.get_option_no_throw(name) != nullptr) return true;
  const auto verbs = app.get_subcommands();
  return std::any_of(verbs.begin(), verbs.end(),
                     [&](const CLI::App* verb) { return knows(*verb, name); });
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error,
                          const std::vector<std::string>& args) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
  for (size_t i = 0; i < args.size(); ++i) {
    const size_t equals = args[i].find('=');
    const std::string name = args[i].substr(0, equals);
    if (!name.starts_with("--") || name == "--" || knows(app, name)) continue;
    const bool apart = equals == std::string::npos && i + 1 < args.size() && args[i + 1][0] != '-';
    const std::string value = apart                         ? args[i + 1]
                              : equals == std::string::npos ? "VALUE"
                                                            : args[i].substr(equals + 1);
    std::string dashes = name;
    std::replace(dashes.begin(), dashes.end(), '_', '-');
    if (knows(app, dashes))
      return fmt::format("unknown option '{}' (did you mean '{}'?)", name, dashes);
    const FamiliarWord familiar = familiar_flag(name);
    if (!familiar.ours.empty())
      return fmt::format("unknown option '{}': write --set {}={}", name, familiar.ours, value);
    if (!familiar.advice.empty())
      return fmt::format("unknown option '{}': {}", name, familiar.advice);
    const std::string near = nearest(name, known);
    return fmt::format("unknown option '{}'{}; see --help", name,
                       near.empty() ? "" : " (did you mean '" + near + "'?)");
  }
  return error.what();
}

}  // namespace

bool parse_arguments(int argc, char** argv, Arguments& out) {
  out.argv.assign(argv, argv + argc);
  std::vector<std::string> args(out.argv.begin() + 1, out.argv.end());
  std::vector<Override> spelled = take_config_overrides(args);

  Options options(out);

  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());  // CLI11 pops from the back
    options.app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* about = &options.app;
    while (!about->get_subcommands().empty()) about = about->get_subcommands()[0];
    print(about->help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(Exit::usage, "bvtrain", usage_message(options.app, error, args));
  }
  for (const auto& [verb, app] : options.verbs) {
    if (app->parsed()) out.verb = verb;
  }
  if (out.verb == Arguments::Verb::help) {
    const std::vector<std::string> flags = options.app.remaining(/*recurse=*/true);
    out.help.words.insert(out.help.words.end(), flags.begin(), flags.end());
  }
  for (const CLI::App* part : options.bench->get_subcommands()) out.bench = part->get_name();
  if (!out.weights.empty()) {  // a flag wins over the environment
    if (!typed(args, "--workdir")) out.workdir.clear();
    if (!typed(args, "--config")) out.config.clear();
  }
  for (const std::string& text : options.sets)
    out.overrides.push_back(split_override(text, "--set"));
  out.overrides.insert(out.overrides.end(), spelled.begin(), spelled.end());
  if (options.dry->count() > 0) {
    if (options.dry_run == "full")
      out.dry_run = DryRun::full;
    else if (options.dry_run == "quick" || options.dry_run == "true")
      out.dry_run = DryRun::quick;
    else
      throw Error(Exit::usage, "--dry-run=" + options.dry_run,
                  "expected --dry-run or --dry-run=full");
  }
  const bool prints = !out.list.empty() || options.dry->count() > 0 || options.bench->parsed() ||
                      out.verb == Arguments::Verb::init;
  if (out.json && !prints)
    throw Error(Exit::usage, "--json", "works with --list, --dry-run, bench and init only");
  return true;
}

namespace {

// Returns the values that a check of CLI11 allows: its type is then "TEXT:{npz,onnx}".
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
