#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace bv {

// The files that a key names: a string or a list of strings, with braces (brace_expansion.h) and
// with the wildcards * and ?, unless a file has exactly that name.
class FileList {
 public:
  // Reads config[key]. Throws a problem of the config for something that is not a path, such as
  // "pipe:..." or a URL. Looks at no file.
  FileList(const Config& config, std::string_view key);

  const Place& place() const { return place_; }  // of the key
  // Returns the files in the order in which they are named; those that a pattern matches are sorted
  // by bytes. Throws Error(Exit::usage) at place() if one is missing, and says how many others are
  // missing.
  std::vector<std::string> existing() const;

 private:
  std::vector<std::string> names_;  // without braces
  Place place_;
};

}  // namespace bv
