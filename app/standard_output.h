// Standard output: what commands print there, and what happens if it cannot be written.
#pragma once

#include <string_view>

#include "lib/util/error.h"

namespace bv {

// Prints text for people. Escapes what could control a terminal (printable_lines()), because names
// in files may hold anything.
void print(std::string_view text);

// Prints data for programs as it is, at once; on a terminal, it is escaped as by print(). Throws
// Error(Exit::storage) if that fails, and Stopped{Exit::no_reader} if the reader has closed the
// pipe.
void write_stdout(std::string_view data);

// Writes what is still buffered. Returns `code`, or the code of the failure if `code` is Exit::ok
// and not everything that was printed could be written.
Exit end_stdout(Exit code);

}  // namespace bv
