// A place in a config file or on the command line, for messages.
#pragma once

#include <compare>
#include <string>

namespace bv {

struct Place {
  std::string file;  // "vit.yaml", or what was typed: "--set lr=x"
  int line = 0;      // counted from 1; 0 for the file as a whole and for the command line
  int column = 0;    // counted from 1, in characters
  // Returns "vit.yaml:12:7", "vit.yaml" or "--set lr=x", with control characters escaped.
  std::string text() const;
  auto operator<=>(const Place&) const = default;  // the order in which problems are shown
};

}  // namespace bv
