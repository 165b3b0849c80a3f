#include "lib/help/man_page.h"

#include <fmt/format.h>

#include "lib/help/catalog.h"
#include "lib/help/exit_codes.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Escapes characters that roff would read as a request or an escape.
std::string roff(std::string_view text) {
  std::string escaped;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
    line_start = c == '\n';
  }
  return escaped;
}

std::string entry(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(term), roff(text));
}

std::string flag_entry(const FlagText& flag) {
  std::string text = flag.meaning + ".";
  if (!flag.choices.empty()) text += " Values: " + join(flag.choices, ", ") + ".";
  if (!flag.variable.empty()) text += " Environment variable: " + flag.variable + ".";
  return entry(join(flag.names, ", ") + (flag.takes_value ? " VALUE" : ""), text);
}

std::string synopsis(const CommandLine& command_line) {
  std::string text = ".SH SYNOPSIS\n.B bvtrain\n\\-\\-config FILE \\-\\-workdir DIR [OPTIONS]\n";
  for (const VerbText& verb : command_line) {
    if (!verb.name.empty()) text += fmt::format(".br\n.B bvtrain {}\n[OPTIONS]\n", roff(verb.name));
  }
  return text;
}

std::string top_level_keys() {
  const HelpTable* top = find_help_table("");
  if (top == nullptr) return "";
  std::string text =
      ".SH CONFIG\nA config is a YAML file. These are its keys at the top level; `bvtrain help "
      "KEY` explains them and all keys below.\n";
  for (const KeyText& key : top->keys)
    text += entry(std::string(key.name), first_sentence(key.meaning));
  return text;
}

}  // namespace

std::string man_page(const CommandLine& command_line, const std::string& version) {
  std::string text = fmt::format(".TH BVTRAIN 1 \"\" \"bvtrain {}\" \"User Commands\"\n", version);
  text += ".SH NAME\nbvtrain \\- train image models from a YAML file\n" + synopsis(command_line);
  text +=
      ".SH DESCRIPTION\nbvtrain reads a config, trains the model that it describes and writes "
      "checkpoints, metrics and a report into a folder, the workdir. The same command continues a "
      "run that was stopped.\n";
  for (const VerbText& verb : command_line) {
    text += verb.name.empty()
                ? std::string(".SH OPTIONS\n")
                : fmt::format(".SH BVTRAIN {}\n{}.\n", roff(verb.name), roff(verb.about));
    for (const FlagText& flag : verb.flags) text += flag_entry(flag);
  }
  text += top_level_keys();
  text += ".SH EXIT STATUS\n";
  for (const ExitText& code : exit_codes())
    text += entry(std::to_string(static_cast<int>(code.code)),
                  fmt::format("{}. {}", code.name, code.meaning));
  text +=
      ".SH EXAMPLES\n.TP\nWrite a config for a folder of images\n.B bvtrain init photos\n"
      ".TP\nStart a run, and continue it\n.B bvtrain \\-\\-config photos.yaml \\-\\-workdir out\n"
      ".TP\nExplain a key\n.B bvtrain help lr\n"
      ".TP\nClassify new images\n.B bvtrain predict \\-\\-workdir out new/*.jpg\n";
  return text;
}

}  // namespace bv
