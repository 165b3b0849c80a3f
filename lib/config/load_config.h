// Loading a Config from a YAML file or string, with included files, environment variables and
// command-line overrides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace bv {

// A value that the command line gives a key: --set lr=0.1 is {"lr", "0.1", "--set lr=0.1"}.
struct Override {
  std::string key;    // a path: "model.width"; a number selects the item of a list. A part may have
                      // dots if it names a key of the file: "evals.val.v2.log_steps"
  std::string value;  // YAML
  std::string origin;  // shown in messages in place of a file
};

// Reads a file:
//   1. `include: base.yaml` at the top level names a base file, relative to the including file. The
//      including file is merged into it: mappings merge deeply, other values replace.
//   2. In values, ${NAME} and ${NAME:-default} become environment variables ("$${" becomes "${").
//      A quoted "${NAME}" reads as ${NAME} without quotes does, except that "" stays a string.
//   3. `overrides` replace values or add keys.
// A duration that is given in one unit (total_steps), even if it is negative, removes the same
// duration in other units (total_epochs) from the included file, and from the file if it is given
// by an override.
//
// Throws Error(Exit::usage) with every problem of the text itself: duplicate keys, tabs, tags,
// several documents, open quotes, invalid UTF-8, NUL bytes, cyclic or exploding aliases (more than
// 64 levels or 10^6 values), more than 1 MiB, cyclic includes, environment variables that are not
// set, and overrides whose path does not fit, that hold a comment, or that would replace what an
// earlier one sets.
Config load_config(const std::string& file, const std::vector<Override>& overrides);

// Reads a string in the same way. Messages show `name`, and includes are relative to its folder.
Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<Override>& overrides = {});
// Reads a string that Config::json() returned, such as the config in a checkpoint. It includes no
// files, and "${" is literal.
Config parse_config_json(std::string_view text, const std::string& name,
                         const std::vector<Override>& overrides = {});

}  // namespace bv
