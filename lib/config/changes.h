// The keys in which two configs differ.
#pragma once

#include <string>
#include <vector>

#include "lib/config/config.h"

namespace bv {

struct ConfigChange {
  // The names of the mappings around the key, from the outermost, and then its own. A name may have
  // dots: {"evals", "val.v2", "batch_size"}.
  std::vector<std::string> path;
  std::string before, after;  // the values as YAML on one line; "not set" if there is none

  std::string key() const;  // the path, for messages: "schedule.warmup_steps"
  std::string text() const { return key() + ": " + before + " -> " + after; }
};

// Returns the keys whose values differ, first those of `now` in its order, then those that only
// `before` has. A list is one value. A key that is not set has the default with which the owner of
// `now` has read it, so writing out a default is not a change. Neither is another spelling of a
// number, unless the key is read as a string, and neither are other blanks between ops. A null
// counts as a value only where its reader gives it a meaning of its own (Config::keep_null()); if
// nobody has read `now`, as when two checkpoints are compared, every null of `optax` counts.
std::vector<ConfigChange> config_changes(const Config& before, const Config& now);

}  // namespace bv
