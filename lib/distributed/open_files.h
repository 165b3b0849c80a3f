// How many files a process may have open: sockets to the other ranks count.
#pragma once

namespace bv {

// Raises this process's soft limit to the hard one; its children inherit that.
void raise_open_files();
// Of one process of a run of `ranks`, its launcher included: a connection to every other rank, two
// of every rank to the store that it may host, and what a process has open besides.
constexpr long needed_open_files(int ranks) { return 3L * ranks + 64; }
// Throws Error(Exit::usage) "ulimit -n 100: error: ..." where the limit is below that.
void check_open_files(int ranks);

}  // namespace bv
