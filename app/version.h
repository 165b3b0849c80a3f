// What this program was built from.
#pragma once

namespace bv {

// The source commit: "1c5c5c8f2d10", with "-dirty" after it if there were uncommitted changes, or
// "unknown" if the sources were not in a repository. cmake/write_commit.cmake writes the
// definition.
const char* build_commit();

// Prints the versions of the program, of its commit, LibTorch and compiler, and where the CUDA
// plug-in is.
void print_version();

}  // namespace bv
