// The mini-language of preprocessing, as in big_vision's pp/builder.py: a string such as
// "decode|resize(224, method='area')|keep('image')" is a list of calls separated by '|'.
//
// A call is a dotted name, alone or with arguments in parentheses: Python literals (numbers,
// strings in either quote, True, False, None, lists, tuples, dicts), positional or by keyword.
// Nothing is evaluated, except that the name num_classes is replaced by the value of that top-level
// key, as in big_vision's configs. The string is split at every '|' first, so no argument can
// contain '|'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace bv {

struct Call {
  std::string name;
  Config args;
  Place place;  // of the name
};

// Parses `text`, the value of `key` in `owner`. Throws Error(Exit::usage) with one line per
// malformed call, each with its place in the file, and records the lines as problems of the config.
std::vector<Call> parse_calls(std::string_view text, const Config& owner, std::string_view key);
// Returns `text` with num_classes replaced by its value. Keeps the name while the config still says
// `auto`.
std::string fill_constants(std::string_view text, const Config& owner);
// Parses a string that is not in a config file (--pp on the command line, tests).
std::vector<Call> parse_calls(std::string_view text, const Place& origin);

}  // namespace bv
