// A place in a config file or on the command line, for messages.
#pragma once

#include <compare>
#include <string>

namespace bv {

struct Place {
  std::string file;  // "vit.yaml", or what was typed: "--set lr=x"
  int line = 0;      // counted from 1; 0 for the file as a whole and for the command line
  int column = 0;    // counted from 1, in characters
  // Of a value in a config that a checkpoint stores, where lines mean nothing: its path from the
  // root, "evals.val.data.data_dir".
  std::string key = {};
  // Returns "vit.yaml:12:7", "vit.yaml", "--set lr=x" or "manifest.json: evals.val.data.data_dir",
  // with control characters escaped.
  std::string text() const;
  auto operator<=>(const Place&) const = default;  // the order in which problems are shown
};

}  // namespace bv
