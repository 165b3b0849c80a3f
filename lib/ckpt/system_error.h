// What a failed system call means for the user.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "lib/util/error.h"

namespace bv {

inline std::string reason(int error) { return std::generic_category().message(error); }

// Returns the exit code for a path that cannot be created or locked. It says whether the path or
// the disk is at fault.
inline Exit exit_for_path(int error) {
  const bool disk = error == ENOSPC || error == EDQUOT || error == EIO || error == EROFS;
  return disk ? Exit::storage : Exit::usage;
}

}  // namespace bv
