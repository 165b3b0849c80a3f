// Appending to a file that others may read meanwhile: one write(2) per call.
#pragma once

#include <string>
#include <string_view>

namespace bv {

// Creates `file` where it is missing and opens it for appending. Throws Error(Exit::storage).
int open_append(const std::string& file);

// Writes all of `bytes` to the end. A file that was removed under us is an error too: what went
// there would be lost. Throws Error(Exit::storage), naming `file`.
void append(int fd, const std::string& file, std::string_view bytes);

}  // namespace bv
