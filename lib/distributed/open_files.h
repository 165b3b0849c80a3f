// The limit on open files of a process: every connection to another rank counts as one.
#pragma once

namespace bv {

// Raises this process's soft limit to its hard limit. Child processes inherit it.
void raise_open_files();
// Returns how many open files a process, including the launcher, needs in a run of `ranks` ranks:
// one connection to every other rank, two from every rank to the store that it may host, and 64 for
// everything else.
constexpr long needed_open_files(int ranks) { return 3L * ranks + 64; }
// Throws Error(Exit::usage) "ulimit -n 100: error: ..." if the limit is lower than that.
void check_open_files(int ranks);

}  // namespace bv
