// Appending to a file that others may read at the same time.
#pragma once

#include <string>
#include <string_view>

namespace bv {

// Opens `file` for appending. If it does not exist it is created, and the folder is synced: a crash
// would otherwise lose the file with all that was synced in it. Throws Error(Exit::storage).
int open_append(const std::string& file);

// Writes all of `bytes` to the end of the file, without a buffer in between. Throws
// Error(Exit::storage) naming `file`, also if the file was deleted meanwhile: the bytes would be
// lost.
void append(int fd, const std::string& file, std::string_view bytes);

}  // namespace bv
