// Names of files that are written before they are renamed into place, and detection of abandoned
// ones: "<file>.tmp-<place>-<process>-<number>". The place is a hash of what makes a process id
// unique: the host, its boot, and the pid namespace, because a container may have its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bv {

// Returns a new name next to `file` for this process to write to.
std::string temporary_name(const std::string& file);

// Returns the file for which `path` is a temporary name; nullopt if `path` is not such a name.
std::optional<std::string> file_of_temporary(std::string_view path);

enum class TemporaryState {
  being_written,  // its writer is alive
  unknown,        // its writer has another place, and the file has changed within a day
  left_behind     // its writer is dead
};
// `path` must be the name of a temporary file. A file from another place that has not changed for a
// day counts as left behind.
TemporaryState temporary_state(const std::string& path);

}  // namespace bv
